// Restores a Redis that lost its data from the database: items with their tags and ranks, and the
// readers' interactions, dismissals and follows (restore_readers.h). Bypasses the stream, since the
// database already has the data. Counters cannot be restored.
#pragma once

#include <cstdint>
#include <functional>

#include "core/database/database.h"
#include "core/recorder/restore_readers.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"

namespace freshet::recorder {

struct RestoreResult {
  std::int64_t items = 0;  // written
  RestoredReaderCounts readers;
};
// Unless `overwrite` is set, skips items that exist in Redis and items that have been deleted
// since, so writes can continue. `on_progress` is called before each pipeline with the number of
// items read; its error aborts the restore. Idempotent. Errors: also those of Redis and the
// database.
Result<RestoreResult> restore_from_database(redis::BlockingRedis& redis, database::Database& database,
                                            const Settings& settings, bool overwrite,
                                            const std::function<Result<void>(std::int64_t)>& on_progress);

// Clears the recorded data loss (consumer_groups.h) if it is still `loss`. Errors: kConflict
// "redis_data_lost_again" if another loss has been recorded since. 2 RTT.
Result<void> end_data_loss(redis::BlockingRedis& redis, const redis::Keys& keys, const std::string& loss);

}  // namespace freshet::recorder
