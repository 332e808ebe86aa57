// The part of freshetctl restore that makes Redis and the database consistent. A backup of a
// running service saves them at slightly different times (save_redis.h), the database later.
#pragma once

#include <cstdint>

#include "core/config/settings.h"
#include "core/database/database.h"
#include "core/redis/blocking_redis.h"

namespace freshet::ctl {

struct ReconcileResult {
  std::int64_t items_put = 0;          // in Redis, where they differed or were missing
  std::int64_t items_removed = 0;      // from Redis, because the database no longer has them
  std::int64_t one_sided_follows = 0;  // removed, because only the reader or only the author had it
};

// Records the streams' entries in the database (jobs stay queued) and then treats the database as
// authoritative for items, interactions and follows. Afterwards no stream's last id is below the
// last recorded one and hidden items are in no rank. REQUIRES: the recorder does not run. O(items +
// keys). Errors: Redis' and the database's.
Result<ReconcileResult> reconcile(redis::BlockingRedis& redis, database::Database& database,
                                  const Settings& settings, const redis::Endpoint& endpoint);

}  // namespace freshet::ctl
