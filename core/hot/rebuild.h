// Ranks anew from the counters, and kept in step with them: those of models with a base. Rank keys
// made with one half-life or set of weights do not compare with those of another, so a change of
// any parameter, or another model, needs new ranks; hot:rank:meta says what the stored ones were
// made with.
#pragma once

#include <cstdint>

#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::hot {

// True when the ranks were made with these parameters. Where there is none it takes them. 2 RTT.
Task<Result<bool>> has_current_params(redis::Redis& redis, const Settings& settings, const redis::Keys& keys);

struct RebuildResult {
  std::int64_t items = 0;   // with counters, or put
  std::int64_t ranked = 0;  // of them in hot:rank afterwards, which is engagement's
};

// Fills hot:rank:next, and the like of other models, from every article's counters, renames all to
// hot:rank and the like, then places once more what was counted meanwhile, by whatever formula: it
// stands in hot:unplaced. Serving goes on. May be repeated at any time; a crash in the middle
// leaves the old or the new ranks. One at a time: kConflict "rebuild_running". O(keys), in
// pipelines of ≤ 500 commands.
Task<Result<RebuildResult>> rebuild_ranks(redis::Redis& redis, const Settings& settings, const redis::Keys& keys);

// What a worker that died left unplaced: places what stands in hot:unplaced, and the next 1/600 of
// all articles. Called by every worker once a second, of which one does it; none while ranks have
// other parameters. 1 RTT, or 5 and, for each page of 500 keys, 1 to 3.
Task<Result<void>> run_rank_maintenance(redis::Redis& redis, const Settings& settings, const redis::Keys& keys);

}  // namespace freshet::hot
