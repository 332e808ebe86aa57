// The part of a rebuild (rebuild.h) that gives readers back what they did and do not want, and whom
// they follow.
#pragma once

#include <functional>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/database/database.h"
#include "core/redis/blocking_redis.h"

namespace freshet::recorder {

struct RestoredReaderCounts {
  std::int64_t interactions = 0;  // written, each item and kind at its newest time
  std::int64_t dismissals = 0;
  std::int64_t follows = 0;  // likewise
};

// From the database into Redis, not through the stream: of each reader the newest
// interactions.max_kept that are within interactions.ttl at `now`, of older ones what keeps their
// items excluded, and dismissals likewise; and all follows, without a back-fill: what authors
// publish from now on reaches the reader. What Redis has already is kept where it is newer.
// O(interactions); memory does not depend on how many there are. `pulse` is called before each
// pipeline, and its error ends this. Errors: also Redis' and the database's.
using ProgressCallback = std::function<Result<void>()>;
Result<RestoredReaderCounts> restore_readers(redis::BlockingRedis& redis, database::Database& database,
                                        const Settings& settings, UnixSeconds now, const ProgressCallback& on_progress = {});

// The tombstones of readers who were erased within spool.max_age of `now`: what spools still hold
// of them is void. O(erasures). Errors: Redis' and the database's.
Result<void> restore_tombstones(redis::BlockingRedis& redis, database::Database& database,
                                const Settings& settings, UnixSeconds now);

}  // namespace freshet::recorder
