// Parses Redis keys by the names of core/redis/keys.h. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace freshet::ctl {

// The single part after `prefix` in a key name, without braces: strip_key_prefix("hot:pv:{12}",
// "hot:pv:") is "12". nullopt if the prefix differs or more parts follow.
std::optional<std::string_view> strip_key_prefix(std::string_view name, std::string_view prefix);

}  // namespace freshet::ctl
