#include "core/base/log_line.h"

#include "core/base/hex.h"
#include "core/base/utf8.h"

namespace freshet::log {
namespace {

void append_code_point(std::string& line, utf8::CodePoint c, std::string_view bytes) {
  if (c.value == '\n') {
    line.append("\\n");
  } else if (c.size == 0 || utf8::is_control(c.value) || c.value == 0x2028 || c.value == 0x2029) {
    for (const char each : bytes) append_hex(line.append("\\x"), static_cast<unsigned char>(each));
  } else {
    line.append(bytes);
  }
}

}  // namespace

void append_value(std::string& line, std::string_view value) {
  constexpr std::string_view kNeedsQuotes = " \"\\=";
  bool quoted = value.empty();
  for (std::size_t at = 0; at < value.size() && !quoted;) {
    const utf8::CodePoint c = utf8::decode(value, at);
    quoted = c.size == 0 || utf8::is_control(c.value) || utf8::is_white_space(c.value) ||
             (c.size == 1 && kNeedsQuotes.find(value[at]) != std::string_view::npos);
    at += c.size;
  }
  if (!quoted) {
    line.append(value);
    return;
  }
  line.push_back('"');
  for (std::size_t at = 0; at < value.size();) {
    const utf8::CodePoint c = utf8::decode(value, at);
    const std::string_view bytes = value.substr(at, c.size == 0 ? 1 : c.size);
    if (c.value == '"' || c.value == '\\') line.push_back('\\');
    append_code_point(line, c, bytes);
    at += bytes.size();
  }
  line.push_back('"');
}

void append_printable(std::string& line, std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const utf8::CodePoint c = utf8::decode(text, at);
    const std::string_view bytes = text.substr(at, c.size == 0 ? 1 : c.size);
    append_code_point(line, c, bytes);
    at += bytes.size();
  }
}

void append_fields(std::string& line,
                   std::initializer_list<std::pair<std::string_view, std::string>> fields) {
  for (const auto& [name, value] : fields) {
    if (!line.empty()) line.push_back(' ');
    line.append(name).push_back('=');
    append_value(line, value);
  }
}

}  // namespace freshet::log
