#include "scripts/ctl/check/key_names.h"

namespace freshet::ctl {

std::optional<std::string> plain_name(std::string_view key, std::string_view prefix) {
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  return std::string(key);
}

std::optional<std::string_view> after(std::string_view plain, std::string_view head) {
  if (!plain.starts_with(head)) return std::nullopt;
  plain.remove_prefix(head.size());
  if (plain.find(':') != std::string_view::npos) return std::nullopt;
  return plain;
}

}  // namespace freshet::ctl
