// The part of freshetctl restore that makes Redis and the database one again. A backup of a running
// service has each at a slightly other moment (save_redis.h), the database later.
#pragma once

#include <cstdint>

#include "core/config/settings.h"
#include "core/database/database.h"
#include "core/redis/blocking_redis.h"

namespace freshet::ctl {

struct ReconcileResult {
  std::int64_t items_put = 0;      // in Redis, which had them otherwise or not at all
  std::int64_t items_removed = 0;  // from Redis: the database has them no more
  std::int64_t one_sided_follows = 0;   // of which only one of reader and author knew: dropped
};

// The stream's entries go into the database (jobs stay), which then has the last word: on items,
// and on what readers did and whom they follow. The stream is not behind what the database
// recorded, hidden items stand in no rank, and hot:rank is made anew. The recorder must not run.
// O(items + keys). Errors: Redis' and the database's.
Result<ReconcileResult> reconcile(redis::BlockingRedis& redis, database::Database& database, const Settings& settings,
                             const redis::Endpoint& endpoint);

}  // namespace freshet::ctl
