// The recorder's consumer group, and what it means when it is gone. It is made once and nobody
// removes it: when it has to be made although the database has recorded something, Redis has lost
// what it had (FLUSHALL, files deleted, another Redis). hot:lost says so from then on to every
// process of every host, until freshetctl rebuild-redis or restore ends it. Blocking; 1 RTT each
// unless it says otherwise.
#pragma once

#include <string>
#include <string_view>

#include "core/redis/keys.h"
#include "core/redis/sync_redis.h"

namespace freshet::recorder {

inline constexpr std::string_view kGroup = "recorder";

// Whether stream and group are there.
Result<bool> has_group(redis::SyncRedis& redis, const redis::Keys& keys);
// Makes stream and group where they are absent; all that is in the stream then is new to the group.
Result<void> make_group(redis::SyncRedis& redis, const redis::Keys& keys);
// Likewise, after a loss, which it notes first: no crash in between hides it. 2 RTT.
Result<void> make_lost_group(redis::SyncRedis& redis, const redis::Keys& keys);

// The loss that was noted last, another text for each: unix milliseconds. "": none.
Result<std::string> noted_loss(redis::SyncRedis& redis, const redis::Keys& keys);
Result<void> forget_loss(redis::SyncRedis& redis, const redis::Keys& keys);

}  // namespace freshet::recorder
