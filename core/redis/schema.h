// The schema of what stands in Redis: names of keys, and what is in them (keys.h).
#pragma once

#include <cstdint>

#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::redis {

inline constexpr int kSchema = 2;

// Who asks: the one that serves says in an empty cluster how many groups there are from now on.
enum class Asks : std::uint8_t { kLooks, kServes };

// 1 RTT, in a cluster 2. An empty Redis has every schema. Errors, with a sentence for people:
// kConflict "other_schema"; "other_groups", when articles are in another number of groups than
// `keys` has, or that is being changed; Redis' own.
Task<Result<void>> expect_schema(Redis& redis, const Keys& keys, Asks asks = Asks::kLooks);
// Says how many groups there are, unless somebody did. In a cluster alone.
void append_group_count(Pipeline& out, const Keys& keys);

}  // namespace freshet::redis
