// The recorder's consumer group on each stream, and detection of data loss. All groups are created
// once and never removed. If a group is missing although the database has recorded entries, Redis
// or one of its nodes has lost its data (FLUSHALL, deleted files, another Redis). In that case
// hot:lost is set, which every process on every host sees, until `freshetctl rebuild-redis` or
// `restore` clears it. Blocking; 1 RTT each unless stated otherwise.
#pragma once

#include <string>
#include <string_view>

#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"

namespace freshet::recorder {

inline constexpr std::string_view kConsumerGroup = "recorder";

// Returns whether every stream has its group.
Result<bool> has_groups(redis::BlockingRedis& redis, const redis::Keys& keys);
// Creates missing streams and groups. All existing entries of a stream are new to its group.
Result<void> create_groups(redis::BlockingRedis& redis, const redis::Keys& keys);
// The same after a data loss, which it records first, so that a crash in between cannot hide it. 2
// RTT.
Result<void> recreate_groups_after_loss(redis::BlockingRedis& redis, const redis::Keys& keys);

// The last recorded loss as unix milliseconds, unique per loss; "" if there is none.
Result<std::string> recorded_data_loss(redis::BlockingRedis& redis, const redis::Keys& keys);
Result<void> clear_data_loss(redis::BlockingRedis& redis, const redis::Keys& keys);

}  // namespace freshet::recorder
