// freshetctl rebuild-redis: a Redis that lost its items gets them back from the database, as the
// recorder does it by itself (core/recorder/restore_from_database.h). Then a loss that was noted
// (core/recorder/consumer_groups.h) is over.
#pragma once

#include "core/database/database.h"
#include "core/recorder/restore_from_database.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct RebuildRedisOptions {
  // Also when Redis has items: the database's replace them; and when it belongs to another database
  // (core/recorder/lease.h): then it belongs to this one.
  bool force = false;
  bool json = false;
  bool quiet = false;
};

// Unless forced, an item that Redis has (again) is left alone, and so is one that was deleted
// meanwhile: writes go on. Errors: kConflict "has_items" (Redis has some, no loss was noted and
// nothing was forced), "database_mismatch" (likewise), "lease_held" (which records into that),
// "redis_data_lost_again" (meanwhile); Redis' and the database's.
Result<recorder::RestoreResult> rebuild_redis(redis::BlockingRedis& redis, database::Database& database,
                                         const Settings& settings, const RebuildRedisOptions& options);

// Run by root it works as the database's owner.
Result<int> run_rebuild_redis(const RebuildRedisOptions& options, const Target& target);

}  // namespace freshet::ctl
