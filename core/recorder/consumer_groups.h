// The recorder's consumer group of each stream, and what it means when one is gone. They are made
// once, all of them, and nobody removes them: when one has to be made although the database has
// recorded something, Redis, or a node of it, has lost what it had (FLUSHALL, files deleted,
// another Redis). hot:lost says so from then on to every process of every host, until freshetctl
// rebuild-redis or restore ends it. Blocking; 1 RTT each unless it says otherwise.
#pragma once

#include <string>
#include <string_view>

#include "core/redis/keys.h"
#include "core/redis/blocking_redis.h"

namespace freshet::recorder {

inline constexpr std::string_view kConsumerGroup = "recorder";

// Whether every stream and its group are there.
Result<bool> has_groups(redis::BlockingRedis& redis, const redis::Keys& keys);
// Makes streams and groups where they are absent; all that is in a stream then is new to its group.
Result<void> create_groups(redis::BlockingRedis& redis, const redis::Keys& keys);
// Likewise, after a loss, which it notes first: no crash in between hides it. 2 RTT.
Result<void> recreate_groups_after_loss(redis::BlockingRedis& redis, const redis::Keys& keys);

// The loss that was noted last, another text for each: unix milliseconds. "": none.
Result<std::string> recorded_data_loss(redis::BlockingRedis& redis, const redis::Keys& keys);
Result<void> clear_data_loss(redis::BlockingRedis& redis, const redis::Keys& keys);

}  // namespace freshet::recorder
