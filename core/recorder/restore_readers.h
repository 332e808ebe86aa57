// The part of a restore (restore_from_database.h) that covers readers: interactions, dismissals and
// follows.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/database/database.h"
#include "core/redis/blocking_redis.h"

namespace freshet::recorder {

struct RestoredReaderCounts {
  std::int64_t interactions = 0;  // written, each item and kind at its newest time
  std::int64_t dismissals = 0;
  std::int64_t follows = 0;  // written
};

// Copies from the database to Redis, bypassing the stream. For each reader: the newest
// interactions.max_kept within interactions.ttl of `now`, of older ones only what excludes their
// items, dismissals likewise, and all follows. Follows come without a back-fill; only what authors
// publish from now on reaches the reader. Newer data in Redis is kept. O(interactions); memory does
// not depend on their number. `on_progress` is called before each pipeline; its error aborts the
// restore. Errors: also those of Redis and the database.
using ProgressCallback = std::function<Result<void>()>;
Result<RestoredReaderCounts> restore_readers(redis::BlockingRedis& redis, database::Database& database,
                                             const Settings& settings, UnixSeconds now,
                                             const ProgressCallback& on_progress = {});

// Restores the tombstones of readers erased within spool.max_age of `now`, which make their spooled
// records void. O(erasures). Errors: those of Redis and the database.
Result<void> restore_tombstones(redis::BlockingRedis& redis, database::Database& database,
                                const Settings& settings, UnixSeconds now);

}  // namespace freshet::recorder
