// The part of freshetctl restore that writes Redis: what save_redis.h saved, with what was left of
// each key's time to live when it was saved, less the time since.
#pragma once

#include <cstdint>
#include <string>

#include "core/config/settings.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/backup/redis_dump.h"
#include "scripts/ctl/commands/progress.h"

namespace freshet::ctl {

// Whether Redis has any key of ours. O(keys) when it has none.
Result<bool> has_keys(redis::BlockingRedis& redis, const RedisSettings& settings);
// Deletes all of them; returns how many. O(keys).
Result<std::int64_t> remove_keys(redis::BlockingRedis& redis, const RedisSettings& settings);

struct RedisLoadResult {
  std::int64_t keys = 0;     // written
  std::int64_t expired = 0;  // their time was over
};
// REQUIRES: !has_keys(). O(bytes). Errors: Redis' and the dump's; kInvalid "redis_refused" when
// Redis does not take a value: it is of an older version than the one saved, or lacks its module.
Result<RedisLoadResult> load_redis(redis::BlockingRedis& redis, DumpReader& dump, std::int64_t total,
                               ProgressLine& line);

}  // namespace freshet::ctl
