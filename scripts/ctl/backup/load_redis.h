// The part of freshetctl restore that writes to Redis what save_redis.h saved. Each key keeps its
// remaining TTL, less the time since it was saved.
#pragma once

#include <cstdint>
#include <string>

#include "core/config/settings.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/backup/convert_dump.h"
#include "scripts/ctl/backup/redis_dump.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {

// Returns whether Redis holds any of Freshet's keys. O(keys) if it holds none.
Result<bool> has_keys(redis::BlockingRedis& redis, const RedisSettings& settings);
// Marks the data as being restored (redis::kRestoring): no service starts with it until
// hot::rebuild_ranks() has run.
Result<void> mark_restoring(redis::BlockingRedis& redis, const RedisSettings& settings);
// Deletes all of Freshet's keys but what mark_restoring() wrote, the recorder's lease and the
// traces of erasures (user:erased, user:epoch); has_keys() ignores the last two. Returns their
// number. REQUIRES: mark_restoring(). O(keys).
Result<std::int64_t> remove_keys(redis::BlockingRedis& redis, const RedisSettings& settings);

// Learns whether the server can load the dump: writes the first value of each type to a key of its
// own and deletes it. Reads the whole dump. Error: kConflict "backup_not_loadable", with the
// server's reply in the detail, if it rejects one, such as for lack of a module.
Result<void> check_loadable(redis::BlockingRedis& redis, const RedisSettings& settings, DumpReader& dump);

struct RedisLoadResult {
  std::int64_t keys = 0;     // written
  std::int64_t expired = 0;  // skipped, their TTL is over
};
// Loads the dump, and moves what articles share to the partitions of this Redis
// (partition_mover.h). REQUIRES: mark_restoring(), and no other key. O(bytes). Errors: Redis' and
// the dump's; kInvalid "redis_refused" if Redis rejects a value. `converter`: for a dump with
// has_old_schema(); null otherwise.
Result<RedisLoadResult> load_redis(redis::BlockingRedis& redis, const RedisSettings& settings,
                                   DumpReader& dump, const DumpConverter* converter, std::int64_t total,
                                   ProgressLine& line);

}  // namespace freshet::ctl
