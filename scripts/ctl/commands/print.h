// Everything that the tool prints. Titles, keys, errors of a server and other texts that others
// wrote must not control the terminal of the operator.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace freshet::ctl {

// Escapes control characters, line separators and ill-formed UTF-8 as the log does: \n, \x1b.
std::string printable(std::string_view text);

// Writes the text with such characters escaped, except line feeds.
void print_text(std::FILE* out, std::string_view text);
// Escapes the control characters that JSON allows in strings, as \u009b.
std::string escape_json(std::string_view json);
// Writes escape_json(json) and a line feed to stdout.
void print_json_line(std::string_view json);

// As fmt::print(), through print_text().
template <class... Arguments>
void print(std::FILE* out, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  print_text(out, fmt::format(format, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  print_text(stdout, fmt::format(format, std::forward<Arguments>(arguments)...));
}

}  // namespace freshet::ctl
