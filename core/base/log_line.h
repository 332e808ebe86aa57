// Formats log lines: event=started pid=12 why="two words". No I/O.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace freshet::log {

// Appends " name=value" for each field (without the space if `line` is empty). A value with spaces
// or special characters is quoted, with \" \\ \n and \xNN escapes.
void append_fields(std::string& line, std::initializer_list<std::pair<std::string_view, std::string>> fields);
// Appends the value alone.
void append_value(std::string& line, std::string_view value);
// Appends the text without quotes: escapes only control characters, line separators and ill-formed
// UTF-8.
void append_printable(std::string& line, std::string_view text);

}  // namespace freshet::log
