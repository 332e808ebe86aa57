// freshetctl rebuild-redis: a Redis that lost its items gets them back from the database: their hashes, tags
// and places in the ranks; and readers what they did and do not want (restore_readers.h). Not through the
// stream: the database has them already. Counters are lost with Redis.
#pragma once

#include "core/async/sync_redis.h"
#include "core/store/database.h"
#include "scripts/ctl/target.h"

namespace freshet::ctl {

struct RebuildRedisOptions {
  bool force = false;  // also when Redis has items: the database's replace them
  bool quiet = false;
};

// How many items were written. Unless forced, an item that Redis has (again) is left alone, and so is one
// that was deleted meanwhile: writes go on. Errors: kConflict "has_items" (Redis has some and nothing was
// forced); Redis' and the database's.
Result<std::int64_t> rebuild_redis(redis::SyncRedis& redis, store::Database& database,
                                   const Settings& settings, const RebuildRedisOptions& options);

// Run by root it works as the database's owner.
Result<int> run_rebuild_redis(const RebuildRedisOptions& options, const Target& target);

}  // namespace freshet::ctl
