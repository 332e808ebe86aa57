// freshetctl repartition: moves the shared keys of articles from another number of partitions
// (core/redis/partitions) to that of redis.partitions.
#pragma once

#include <cstdint>
#include <functional>

#include "core/config/settings.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct RepartitionOptions {
  bool json = false;
  bool quiet = false;
};

struct RepartitionResult {
  std::int64_t items = 0;    // with counters, or put by the site
  std::int64_t removed = 0;  // keys of the old partitions
};

// Creates the new partitions' recorder streams, copies hidden, newest and unverified articles and
// tags, rebuilds the ranks from the counters, then removes the old partitions' keys. Meanwhile
// Redis is marked as being repartitioned, and no service starts. Can be repeated after an
// interruption at any point, with the same result. `on_progress` gets the number of keys scanned;
// its error aborts.
// REQUIRES: no service and no other tool writes. O(keys). Errors: kConflict "not_recorded" if
// entries are pending in an old partition's stream (nothing was changed); Redis' own.
Result<RepartitionResult> repartition(redis::BlockingRedis& redis, const Settings& settings,
                                      const std::function<Result<void>(std::int64_t)>& on_progress);

// Errors: also kConflict "service_running"; kInvalid "no_cluster".
Result<int> run_repartition(const RepartitionOptions& options, const Target& target);

}  // namespace freshet::ctl
