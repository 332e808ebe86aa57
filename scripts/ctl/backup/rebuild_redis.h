// freshetctl rebuild-redis: a Redis that lost its items gets them back from the database: their
// hashes, tags and places in the ranks; and readers what they did and do not want
// (restore_readers.h). Not through the stream: the database has them already. Counters are lost
// with Redis. Then a loss that was noted (core/recorder/group.h) is over.
#pragma once

#include "core/database/database.h"
#include "core/redis/sync_redis.h"
#include "scripts/ctl/backup/restore_readers.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct RebuildRedisOptions {
  bool force = false;  // also when Redis has items: the database's replace them
  bool json = false;
  bool quiet = false;
};

struct RedisRebuilt {
  std::int64_t items = 0;  // written
  RestoredReaders readers;
};
// Unless forced, an item that Redis has (again) is left alone, and so is one that was deleted
// meanwhile: writes go on. Errors: kConflict "has_items" (Redis has some, no loss was noted and
// nothing was forced), "lost_again" (meanwhile); Redis' and the database's.
Result<RedisRebuilt> rebuild_redis(redis::SyncRedis& redis, database::Database& database,
                                   const Settings& settings, const RebuildRedisOptions& options);

// Run by root it works as the database's owner.
Result<int> run_rebuild_redis(const RebuildRedisOptions& options, const Target& target);

}  // namespace freshet::ctl
