// What one visitor added to the counters of items, and taking it back: for visitors who turn out to be a
// fraud. track.lua and view.lua remember it in hot:added:{visitor}, in the same step in which they count, for
// limits.remember after the visitor's last new article.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::hot {

struct Added {
  std::int64_t pv = 0, uv = 0, dwell_ms = 0;  // seed 001; uv: as many as the HyperLogLog's estimate rose by
  std::int64_t views = 0, first_views = 0;    // seed 003: counted views; those that were a day's first
  double views_score = 0;
  Added& operator+=(const Added& other);
};

struct AddedTo {
  ItemId item;
  Added added;
};

// The fields of a hot:added:{visitor} as HGETALL answers them, by item; items with the most page views and
// views first. What is no field of ours is left out.
std::vector<AddedTo> read_added(const redis::Reply& hash);

// 1 RTT. Empty: nothing is remembered of this visitor.
Task<Result<std::vector<AddedTo>>> added_by(redis::Redis& redis, const redis::Keys& keys,
                                            std::string_view visitor);

// Subtracts what the visitor added to these items and ranks them anew; an item that nobody else opened leaves
// the ranks. Each item at once or not at all, and only once: after an error the rest can be taken back by the
// same call. Lists are built anew from the next request on. What was taken back of each. 2 RTT for every 100
// items, and 1. Errors: Redis'; kConflict "item_busy" when an item, or what is remembered of it, changes
// again and again between two round trips.
Task<Result<std::vector<AddedTo>>> take_back(redis::Redis& redis, const Settings& settings,
                                             const redis::Keys& keys, std::string_view visitor,
                                             const std::vector<ItemId>& items);

}  // namespace freshet::hot
