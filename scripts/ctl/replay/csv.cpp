#include "scripts/ctl/replay/csv.h"

#include <algorithm>

namespace freshet::ctl {

CsvReader::CsvReader(std::string_view text, char separator) : remaining_(text), separator_(separator) {
  if (remaining_.starts_with("\xEF\xBB\xBF")) remaining_.remove_prefix(3);
}

bool CsvReader::skip_line_end() {
  const std::size_t size = remaining_.starts_with("\r\n") ? 2 : remaining_.starts_with('\n') ? 1 : 0;
  remaining_.remove_prefix(size);
  line_ += size > 0 ? 1 : 0;
  return size > 0;
}

Result<std::string> CsvReader::read_quoted() {
  std::string out;
  remaining_.remove_prefix(1);
  while (true) {
    const std::size_t quote = remaining_.find('"');
    if (quote == std::string_view::npos) {
      return fail(ErrorCode::kInvalid, "bad_csv", {},
                  "line " + std::to_string(record_line_) + ": unterminated quoted field");
    }
    out.append(remaining_.substr(0, quote));
    line_ += static_cast<std::size_t>(
        std::count(remaining_.begin(), remaining_.begin() + static_cast<std::ptrdiff_t>(quote), '\n'));
    remaining_.remove_prefix(quote + 1);
    if (!remaining_.starts_with('"')) return out;
    out += '"';
    remaining_.remove_prefix(1);
  }
}

Result<bool> CsvReader::next(std::vector<std::string>& fields) {
  fields.clear();
  while (skip_line_end()) {
  }
  if (remaining_.empty()) return false;
  record_line_ = line_;
  const std::string field_ends{separator_, '\n'};
  while (true) {
    if (remaining_.starts_with('"')) {
      FRESHET_TRY(field, read_quoted());
      fields.push_back(std::move(*field));
    } else {
      std::size_t end = std::min(remaining_.find_first_of(field_ends), remaining_.size());
      std::string_view field = remaining_.substr(0, end);
      if (field.ends_with('\r') && end < remaining_.size() && remaining_[end] == '\n') {
        field.remove_suffix(1);
        --end;
      }
      if (field.find('"') != std::string_view::npos) {
        return fail(ErrorCode::kInvalid, "bad_csv", {},
                    "line " + std::to_string(record_line_) + ": quote inside an unquoted field");
      }
      fields.emplace_back(field);
      remaining_.remove_prefix(end);
    }
    if (remaining_.starts_with(separator_)) {
      remaining_.remove_prefix(1);
      continue;
    }
    if (remaining_.empty() || skip_line_end()) return true;
    return fail(ErrorCode::kInvalid, "bad_csv", {},
                "line " + std::to_string(record_line_) + ": text after a quoted field");
  }
}

}  // namespace freshet::ctl
