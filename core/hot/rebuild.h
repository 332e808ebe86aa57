// Rebuilds the ranks of computed models from the counters, and repairs them continuously.
//
// Rank keys of different half-lives or weights cannot be compared, so a model needs a new rank when
// one of its parameters changes. hot:rank:meta records the parameters of each stored rank.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/settings.h"
#include "core/hot/models.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::hot {

using ModelList = std::vector<const Model*>;
// The models whose ranks are computed from counters.
ModelList computed_models();

// The models whose stored ranks have other parameters. Where no rank is stored, stores the current
// parameters. 2 RTT.
Task<Result<ModelList>> outdated_ranks(redis::Redis& redis, const Settings& settings,
                                       const redis::Keys& keys);

struct RebuildResult {
  std::int64_t items = 0;   // articles with counters, or PUT
  std::int64_t ranked = 0;  // those in the rank of the first of the models
};

// Fills hot:rank:next (and likewise for the other `models`) from every article's counters, renames
// it to hot:rank, then ranks the articles in hot:unplaced, which were counted during the rebuild,
// again.
// Lists are served throughout. May be repeated at any time; after a crash either the old or the new
// ranks are in place. Errors: kConflict "rebuild_running" if another one is running. O(keys), in
// pipelines of at most 500 commands.
Task<Result<RebuildResult>> rebuild_ranks(redis::Redis& redis, const Settings& settings,
                                          const redis::Keys& keys,
                                          const ModelList& models = computed_models());

// Repairs what a killed worker did not write: ranks the articles in hot:unplaced and the next 1/600
// of all articles. Every worker calls it once a second; one of them does the work. Does nothing
// while a stored rank has other parameters. 1 RTT, or 5 plus 1 to 3 per page of 500 keys.
Task<Result<void>> run_rank_maintenance(redis::Redis& redis, const Settings& settings,
                                        const redis::Keys& keys);

}  // namespace freshet::hot
