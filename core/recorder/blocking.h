// How the recorder's jobs talk to Redis.
#pragma once

#include "core/async/sync_redis.h"
#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::recorder {

// Of a command, on each of the recorder's connections. With the block of a read (core/recorder/stream.h) less
// than a second, so that stopping takes no longer even when Redis hangs.
inline constexpr milliseconds kRedisTimeout{800};

// Runs commands none of which may fail; their replies. 1 RTT. Errors: Redis' own.
inline Result<redis::Replies> ask(redis::SyncRedis& redis, const redis::Pipeline& commands) {
  auto replies = redis.call(commands);
  if (!replies) return replies;
  for (const redis::Reply& each : *replies) {
    if (each.is_error()) return tl::unexpected(redis::classify(each.error()));
  }
  return replies;
}

}  // namespace freshet::recorder
