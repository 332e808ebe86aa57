// Rebuilds the ranks of computed models from the counters, and repairs them continuously.
//
// Rank keys of different half-lives or weights cannot be compared, so a change of any parameter, or
// a new model, requires new ranks. hot:rank:meta records the parameters of the stored ones.
#pragma once

#include <cstdint>

#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::hot {

// True if the stored ranks have these parameters. If none are stored, stores the current ones. 2
// RTT.
Task<Result<bool>> has_current_params(redis::Redis& redis, const Settings& settings, const redis::Keys& keys);

struct RebuildResult {
  std::int64_t items = 0;   // articles with counters, or PUT
  std::int64_t ranked = 0;  // those in hot:rank (the engagement model)
};

// Fills hot:rank:next (and likewise for other models) from every article's counters, renames it to
// hot:rank, then ranks the articles in hot:unplaced, which were counted during the rebuild, again.
// Lists are served throughout. May be repeated at any time; after a crash either the old or the new
// ranks are in place. Errors: kConflict "rebuild_running" if another one is running. O(keys), in
// pipelines of at most 500 commands.
Task<Result<RebuildResult>> rebuild_ranks(redis::Redis& redis, const Settings& settings,
                                          const redis::Keys& keys);

// Repairs what a killed worker did not write: ranks the articles in hot:unplaced and the next 1/600
// of all articles. Every worker calls it once a second; one of them does the work. Does nothing
// while the stored ranks have other parameters. 1 RTT, or 5 plus 1 to 3 per page of 500 keys.
Task<Result<void>> run_rank_maintenance(redis::Redis& redis, const Settings& settings,
                                        const redis::Keys& keys);

}  // namespace freshet::hot
