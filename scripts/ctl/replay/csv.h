// Comma-separated values as defined by RFC 4180: quoted fields may contain commas, doubled quotes
// and line breaks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace freshet::ctl {

class CsvReader {
 public:
  // `text` must outlive this. Lines end with LF or CRLF, optional for the last one. A leading byte
  // order mark is skipped. `separator`: between fields.
  explicit CsvReader(std::string_view text, char separator = ',');
  // Reads one record into `fields`. False at the end. Skips empty lines. Errors: kInvalid
  // "bad_csv", with the line in the detail. O(bytes).
  Result<bool> next(std::vector<std::string>& fields);
  // First line of the record read last, from 1.
  std::size_t line() const { return record_line_; }

 private:
  Result<std::string> read_quoted();
  bool skip_line_end();

  std::string_view remaining_;
  char separator_;
  std::size_t line_ = 1;
  std::size_t record_line_ = 0;
};

}  // namespace freshet::ctl
