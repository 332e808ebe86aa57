// hot:rank anew from the counters, and kept in step with them. Rank keys made with one half-life or
// set of weights do not compare with those of another, so a change of either needs a new rank;
// hot:rank:meta says what the stored one was made with.
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
  std::int64_t items = 0;   // with counters, or put
  std::int64_t ranked = 0;  // of them in hot:rank afterwards
};

// Fills hot:rank:next from every article's counters, renames it to hot:rank, then places once more
// what was counted meanwhile, by whatever formula: it stands in hot:unplaced. Serving goes on. May be
// repeated at any time; a crash in the middle leaves the old or the new rank. One at a time:
// kConflict "rebuild_running". O(keys), in pipelines of ≤ 500 commands.
Task<Result<Rebuilt>> rebuild_rank(redis::Redis& redis, const Settings& settings, const redis::Keys& keys);

// What a worker that died left unplaced: places what stands in hot:unplaced, and the next 1/600 of
// all articles. Called by every worker once a second, of which one does it; none while the rank has
// another formula. 1 RTT, or 3 and more.
Task<Result<void>> look_after_ranks(redis::Redis& redis, const Settings& settings, const redis::Keys& keys);

}  // namespace freshet::hot
