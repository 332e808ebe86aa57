#include "scripts/ctl/check/key_names.h"

#include "core/redis/partitions/key_encoding.h"

namespace freshet::ctl {

std::optional<std::string> strip_key_prefix(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  if (name.find(':') != std::string_view::npos) return std::nullopt;
  if (name.starts_with('{') && name.ends_with('}')) name = name.substr(1, name.size() - 2);
  return redis::decode_key_part(name);
}

}  // namespace freshet::ctl
