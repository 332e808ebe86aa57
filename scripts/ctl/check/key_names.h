// Redis keys back to the names of core/redis/keys.h. Pure.
#pragma once

#include <optional>
#include <string_view>

namespace freshet::ctl {

// The one part that follows `head` in a plain name, without braces: after("hot:pv:{12}", "hot:pv:")
// is "12". Nullopt when the name begins otherwise, or more parts follow.
std::optional<std::string_view> strip_key_prefix(std::string_view name, std::string_view prefix);

}  // namespace freshet::ctl
