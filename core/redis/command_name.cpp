#include "core/redis/command_name.h"

#include <algorithm>
#include <charconv>

namespace freshet::redis {
namespace {

// Consumes "$LENGTH\r\nVALUE\r\n" from the front of `resp`. Empty if it does not start with that.
std::string_view consume_argument(std::string_view& resp) {
  std::size_t length = 0;
  const auto line = resp.find("\r\n");
  if (!resp.starts_with('$') || line == std::string_view::npos) return {};
  std::from_chars(resp.data() + 1, resp.data() + line, length);
  const std::string_view value = resp.substr(line + 2, length);
  resp.remove_prefix(std::min(resp.size(), line + 2 + length + 2));
  return value;
}

}  // namespace

std::string command_name(const Pipeline& pipeline, std::span<const Script> scripts) {
  if (pipeline.empty()) return {};
  std::string_view resp = pipeline.at(0);
  resp.remove_prefix(std::min(resp.size(), resp.find("\r\n") + 2));
  std::string name(consume_argument(resp));
  if (name == "EVALSHA") {
    const auto script = std::ranges::find(scripts, consume_argument(resp), &Script::sha1);
    if (script != scripts.end()) name = script->name;
  }
  if (pipeline.size() > 1) name.append(" +").append(std::to_string(pipeline.size() - 1));
  return name;
}

}  // namespace freshet::redis
