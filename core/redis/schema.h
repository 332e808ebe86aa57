// The schema of what stands in Redis: names of keys, and what is in them (keys.h).
#pragma once

#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::redis {

inline constexpr int kSchema = 2;

// 1 RTT. An empty Redis has every schema. Errors: kConflict "other_schema", with a sentence for
// people; Redis' own.
Task<Result<void>> expect_schema(Redis& redis, const Keys& keys);

}  // namespace freshet::redis
