// freshetctl repartition: what articles share, from one number of groups (core/redis/partitions/partitions.h)
// into that of redis.partitions.
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
  std::int64_t items = 0;    // with counters, or put
  std::int64_t removed = 0;  // keys of other groups
};

// The recorder's streams, which must be empty, are made anew; hidden, newest and unlisted articles
// and tags are copied, ranks and what belongs to them are made anew from the counters, then the
// keys of other groups are removed. Until then Redis says that it is between two numbers, and no
// service starts. Stopped anywhere, and called again, it ends as if it had not been. `pulse` is
// told how many keys were looked at; its error ends this. REQUIRES: no service and no other tool
// writes. O(keys). Errors: kConflict "not_recorded" when entries wait in a stream of another number
// of groups, and nothing was done; Redis' own.
Result<RepartitionResult> repartition(redis::BlockingRedis& redis, const Settings& settings,
                          const std::function<Result<void>(std::int64_t)>& on_progress);

// Errors: also kConflict "service_running"; kInvalid "no_cluster".
Result<int> run_repartition(const RepartitionOptions& options, const Target& target);

}  // namespace freshet::ctl
