// The part of freshetctl backup that reads Redis: into a dump (redis_dump.h), by SCAN and DUMP, in
// small steps between which Redis serves. So it works with any Redis that can be reached, needs
// none of its files and no right to replicate, and takes our keys only.
//
// Not one moment of all keys: each is as it was at some moment of the walk, an item's counters all
// at the same. What belongs together is read in an order that load_redis.h and reconcile.h can
// mend: jobs before what they write, an hour's bucket before the bound on it, the recorder's stream
// last, and the database after it: an item that is in the dump's hashes is in its stream or in the
// database.
#pragma once

#include <cstdint>
#include <string>

#include "core/config/settings.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/backup/redis_dump.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {

struct RedisSaveResult {
  std::string version;         // of the server
  std::int64_t keys = 0;       // written
  std::int64_t foreign_keys = 0;  // under our prefix, and none of ours: not written
};

// Left out is what is made anew from the rest (hot:rank, cached lists, buffers of feeds) and what
// has less than a minute to live. O(keys); memory: their names. Errors: Redis' and the dump's.
Result<RedisSaveResult> save_redis(redis::BlockingRedis& redis, const RedisSettings& settings, DumpWriter& dump,
                              ProgressLine& line);

// Whether a key, by its row in redis::kKeyPatterns, is made anew from others.
bool is_excluded_from_backup(std::string_view pattern);

}  // namespace freshet::ctl
