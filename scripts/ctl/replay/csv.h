// Comma-separated values as RFC 4180 has them: quoted fields may hold commas, doubled quotes and
// line ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace freshet::ctl {

class CsvReader {
 public:
  // `text` must outlive this. Lines end with LF or CRLF; the last one needs no end; a leading byte
  // order mark is skipped.
  explicit CsvReader(std::string_view text);
  // Reads one record into `fields`. False at the end. Empty lines are skipped. Errors: kInvalid,
  // "bad_csv", detail with the line. O(bytes).
  Result<bool> next(std::vector<std::string>& fields);
  // The line that the record read last began on; the first is 1.
  std::size_t line() const { return record_line_; }

 private:
  Result<std::string> read_quoted();
  bool skip_line_end();

  std::string_view remaining_;
  std::size_t line_ = 1;
  std::size_t record_line_ = 0;
};

}  // namespace freshet::ctl
