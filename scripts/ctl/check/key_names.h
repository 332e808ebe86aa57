// Redis keys back to the names of core/redis/keys.h. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace freshet::ctl {

// The name without `prefix`. Nullopt when the key does not begin with `prefix`: somebody
// else's.
std::optional<std::string> plain_name(std::string_view key, std::string_view prefix);

// The one part that follows `head` in a plain name: after("hot:pv:12", "hot:pv:") is "12". Nullopt when the
// name begins otherwise, or more parts follow.
std::optional<std::string_view> after(std::string_view plain, std::string_view head);

}  // namespace freshet::ctl
