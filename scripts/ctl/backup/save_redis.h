// The part of freshetctl backup that saves Redis to a dump (redis_dump.h) with SCAN and a command
// for each type, in small steps between which Redis serves. Works with any reachable Redis: it
// needs neither its files nor replication rights. The dump does not depend on the server: one of
// Redis loads into Valkey, and the reverse. Saves Freshet's keys only; of a stream the entries, not
// the consumer groups.
//
// Not a snapshot: each key is saved at its own moment of the scan; an item's counters are saved
// together. Related keys are read in an order that load_redis.h and reconcile.h can repair: jobs
// before the data they write, an hour's bucket before its bound, the recorder's streams last and
// the database after them, so that every item in the dump is in a stream or in the database.
#pragma once

#include <cstdint>
#include <string>

#include "core/config/settings.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/backup/redis_dump.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {

struct RedisSaveResult {
  std::string server;             // redis::server_name()
  std::int64_t keys = 0;          // written
  std::int64_t foreign_keys = 0;  // under our prefix but not Freshet's by name or type: not written
};

// Leaves out keys that are rebuilt from others (hot:rank, cached lists, feed buffers), keys with
// less than a minute to live, and what anonymous readers did: no database lists their erasures, so
// a restore could not repeat them. O(keys); memory: their names. Errors: Redis' and the dump's.
Result<RedisSaveResult> save_redis(redis::BlockingRedis& redis, const RedisSettings& settings,
                                   DumpWriter& dump, ProgressLine& line);

// True for keys that are not saved, by their row in redis::kKeyPatterns: rebuilt from others, or of
// the recorder's lease.
bool is_excluded_from_backup(std::string_view pattern);

}  // namespace freshet::ctl
