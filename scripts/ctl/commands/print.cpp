#include "scripts/ctl/commands/print.h"

#include "core/base/log_line.h"
#include "core/base/utf8.h"

namespace freshet::ctl {

std::string printable(std::string_view text) {
  std::string out;
  log::append_printable(out, text);
  return out;
}

void print_text(std::FILE* out, std::string_view text) {
  std::string line;
  while (true) {
    const std::size_t end = text.find('\n');
    log::append_printable(line, text.substr(0, end));
    if (end == std::string_view::npos) break;
    line.push_back('\n');
    text.remove_prefix(end + 1);
  }
  fmt::print(out, "{}", line);
}

std::string escape_json(std::string_view json) {
  std::string out;
  for (std::size_t at = 0; at < json.size();) {
    const utf8::CodePoint c = utf8::decode(json, at);
    const std::string_view bytes = json.substr(at, c.size == 0 ? 1 : c.size);
    if (c.size != 0 && utf8::is_control(c.value) && c.value != '\n')
      out.append(fmt::format("\\u{:04x}", static_cast<unsigned>(c.value)));
    else
      out.append(bytes);
    at += bytes.size();
  }
  return out;
}

void print_json_line(std::string_view json) { fmt::print("{}\n", escape_json(json)); }

}  // namespace freshet::ctl
