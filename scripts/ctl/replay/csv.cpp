#include "scripts/ctl/replay/csv.h"

#include <algorithm>

namespace freshet::ctl {

CsvReader::CsvReader(std::string_view text) : rest_(text) {
  if (rest_.starts_with("\xEF\xBB\xBF")) rest_.remove_prefix(3);
}

bool CsvReader::skip_line_end() {
  const std::size_t size = rest_.starts_with("\r\n") ? 2 : rest_.starts_with('\n') ? 1 : 0;
  rest_.remove_prefix(size);
  line_ += size > 0 ? 1 : 0;
  return size > 0;
}

Result<std::string> CsvReader::quoted() {
  std::string out;
  rest_.remove_prefix(1);
  while (true) {
    const std::size_t quote = rest_.find('"');
    if (quote == std::string_view::npos) {
      return fail(ErrorCode::kInvalid, "bad_csv", {},
                  "line " + std::to_string(record_line_) + ": a quoted field has no end");
    }
    out.append(rest_.substr(0, quote));
    line_ += static_cast<std::size_t>(
        std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(quote), '\n'));
    rest_.remove_prefix(quote + 1);
    if (!rest_.starts_with('"')) return out;
    out += '"';
    rest_.remove_prefix(1);
  }
}

Result<bool> CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  while (skip_line_end()) {
  }
  if (rest_.empty()) return false;
  record_line_ = line_;
  while (true) {
    if (rest_.starts_with('"')) {
      FRESHET_TRY(field, quoted());
      fields.push_back(std::move(*field));
    } else {
      std::size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
      std::string_view field = rest_.substr(0, end);
      if (field.ends_with('\r') && end < rest_.size() && rest_[end] == '\n') {
        field.remove_suffix(1);
        --end;
      }
      if (field.find('"') != std::string_view::npos) {
        return fail(ErrorCode::kInvalid, "bad_csv", {},
                    "line " + std::to_string(record_line_) + ": a quote inside an unquoted field");
      }
      fields.emplace_back(field);
      rest_.remove_prefix(end);
    }
    if (rest_.starts_with(',')) {
      rest_.remove_prefix(1);
      continue;
    }
    if (rest_.empty() || skip_line_end()) return true;
    return fail(ErrorCode::kInvalid, "bad_csv", {},
                "line " + std::to_string(record_line_) + ": text behind a quoted field");
  }
}

}  // namespace freshet::ctl
