// How a line of a log says what it says: event=started pid=12 why="two words". Pure.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace freshet::log {

// Appends " name=value" for each (the first without the space when `line` is empty). A value stands
// bare when it is one word; otherwise in quotes, with \" \\ \n and \xNN for control characters.
void append_fields(std::string& line, std::initializer_list<std::pair<std::string_view, std::string>> fields);
// The value alone.
void append_value(std::string& line, std::string_view value);

}  // namespace freshet::log
