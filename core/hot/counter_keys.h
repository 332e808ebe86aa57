// The keys of an item's counters of engagement, in the order in which scripts take them.
#pragma once

#include <string_view>

#include "core/redis/command.h"
#include "core/redis/keys.h"

namespace freshet::hot {

inline constexpr std::size_t kCounterKeys = 6;
inline redis::Pipeline& append_counter_keys(redis::Pipeline& out, const redis::Keys& keys,
                                            std::string_view id) {
  return out.arg(keys.pv(id))
      .arg(keys.uv_hll(id))
      .arg(keys.dwell_sum(id))
      .arg(keys.dwell_count(id))
      .arg(keys.first_ts(id))
      .arg(keys.item(id));
}

}  // namespace freshet::hot
