#include "scripts/ctl/check/key_names.h"

namespace freshet::ctl {

std::optional<std::string_view> after(std::string_view plain, std::string_view head) {
  if (!plain.starts_with(head)) return std::nullopt;
  plain.remove_prefix(head.size());
  if (plain.find(':') != std::string_view::npos) return std::nullopt;
  if (plain.starts_with('{') && plain.ends_with('}')) plain = plain.substr(1, plain.size() - 2);
  return plain;
}

}  // namespace freshet::ctl
