// freshetctl rebuild-redis: restores Redis' items from the database, as the recorder does after a
// data loss (core/recorder/restore_from_database.h). Clears a recorded data loss
// (core/recorder/consumer_groups.h).
#pragma once

#include "core/database/database.h"
#include "core/recorder/restore_from_database.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct RebuildRedisOptions {
  // Run even if Redis has items (the database's replace them) or belongs to another database
  // (core/recorder/lease.h; it then belongs to this one).
  bool force = false;
  bool json = false;
  bool quiet = false;
};

// Concurrent writes are safe: unless forced, items that Redis has again or that have been deleted
// since are left alone. Errors: kConflict "has_items" (not forced, and no data loss is recorded),
// "database_mismatch" (not forced), "lease_held" (that database's recorder is running),
// "redis_data_lost_again" (a new data loss during the rebuild); Redis' and the database's.
Result<recorder::RestoreResult> rebuild_redis(redis::BlockingRedis& redis, database::Database& database,
                                              const Settings& settings, const RebuildRedisOptions& options);

// Under root it switches to the database's owner.
Result<int> run_rebuild_redis(const RebuildRedisOptions& options, const Target& target);

}  // namespace freshet::ctl
