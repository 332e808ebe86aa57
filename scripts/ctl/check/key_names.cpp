#include "scripts/ctl/check/key_names.h"

namespace freshet::ctl {

std::optional<std::string> plain_name(std::string_view key, std::string_view prefix, bool hash_tags) {
  if (!key.starts_with(prefix)) return std::nullopt;
  key.remove_prefix(prefix.size());
  if (!hash_tags) return std::string(key);
  // A tag's set stands beside the ranks: {hot}:tag:x.
  constexpr std::string_view kSharedTag = "{hot}:tag:";
  if (key.starts_with(kSharedTag)) return "tag:" + std::string(key.substr(kSharedTag.size()));
  std::string out;
  for (const char c : key) {
    if (c != '{' && c != '}') out += c;  // ids contain none
  }
  return out;
}

std::optional<std::string_view> after(std::string_view plain, std::string_view head) {
  if (!plain.starts_with(head)) return std::nullopt;
  plain.remove_prefix(head.size());
  if (plain.find(':') != std::string_view::npos) return std::nullopt;
  return plain;
}

}  // namespace freshet::ctl
