// hot:rank anew from the counters. Rank keys made with one half-life or set of weights do not compare with
// those of another, so a change of either needs this; hot:rank:meta says what the stored ones were made with.
#pragma once

#include <cstdint>

#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::hot {

// True when hot:rank was made with these parameters. An empty rank takes them. 2 RTT.
Task<Result<bool>> params_match(redis::Redis& redis, const EngagementSettings& settings,
                                const redis::Keys& keys);

struct Rebuilt {
  std::int64_t items = 0;   // with counters
  std::int64_t ranked = 0;  // of them in hot:rank afterwards
};

// Fills hot:rank:next from every item's counters, renames it to hot:rank, then goes through all once more for
// what was counted meanwhile (by a process with the old parameters, too). Serving goes on. May be repeated at
// any time; a crash in the middle leaves the old or the new rank. One at a time: kConflict "rebuild_running".
// O(items), in pipelines of ≤ 500 commands.
Task<Result<Rebuilt>> rebuild_rank(redis::Redis& redis, const Settings& settings, const redis::Keys& keys);

}  // namespace freshet::hot
