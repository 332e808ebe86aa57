// How a feed::Ration goes to a script that includes parts/ration.lua: as the last key, when there is a limit,
// and the last two arguments. KEYS and ARGV are without them behind the part.
#pragma once

#include <optional>
#include <string>

#include "core/async/command.h"
#include "core/async/redis.h"
#include "core/feed/ports_ration.h"
#include "core/store/keys.h"

namespace freshet::store {

inline constexpr std::size_t kRationArgs = 2;
inline std::size_t ration_keys(const feed::Ration& ration) { return ration.endpoint.empty() ? 0 : 1; }

// The key, behind all others: `limit:{endpoint}:{who}`; nothing when there is no limit.
inline void append_ration_key(redis::Pipeline& out, const Keys& keys, const feed::Ration& ration) {
  if (!ration.endpoint.empty()) out.arg(keys.limit(ration.endpoint, ration.who));
}
// The same for a script about one item: with hash tags the bucket is one of this item.
inline void append_ration_key(redis::Pipeline& out, const Keys& keys, const feed::Ration& ration,
                              std::string_view item) {
  if (ration.endpoint.empty()) return;
  out.arg(keys.hash_tags() ? keys.limit_of_item(ration.endpoint, item, ration.who)
                           : keys.limit(ration.endpoint, ration.who));
}
// The arguments, behind all others: in whole ms, as keys live; a token more often than each is one each ms.
inline void append_ration(redis::Pipeline& out, const feed::Ration& ration) {
  if (ration.endpoint.empty()) {
    out.arg(0).arg(0);
    return;
  }
  const std::int64_t interval_ms = (ration.interval_us + 999) / 1000;
  out.arg(ration.tolerance_us / ration.interval_us * interval_ms).arg(interval_ms);
}

// The error when `line`, what a script answered, says that there is no token.
std::optional<Error> ration_error(std::string_view line);

// run_one() for a script with a ration.
Task<Result<redis::Reply>> run_rationed(redis::Redis& redis, const redis::Pipeline& command);

}  // namespace freshet::store
