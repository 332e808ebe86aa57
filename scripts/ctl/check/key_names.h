// Parses Redis keys by the names of core/redis/keys.h. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace freshet::ctl {

// The single part after `prefix` in a key name, decoded and without braces:
// strip_key_prefix("hot:pv:{a%3A1}", "hot:pv:") is "a:1". nullopt if the prefix differs or more
// parts follow.
std::optional<std::string> strip_key_prefix(std::string_view name, std::string_view prefix);

}  // namespace freshet::ctl
