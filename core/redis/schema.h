// The schema of what stands in Redis: names of keys, and what is in them (keys.h).
#pragma once

#include <cstdint>

#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::redis {

inline constexpr int kSchemaVersion = 2;

// Who asks: the one that serves says in an empty cluster how many groups there are from now on.
enum class SchemaCheck : std::uint8_t { kCheckOnly, kInitialize };

// 1 RTT, in a cluster 2. An empty Redis has every schema. Errors, with a sentence for people:
// kConflict "schema_mismatch"; "partitions_mismatch", when articles are in another number of groups than
// `keys` has, or that is being changed; Redis' own.
Task<Result<void>> check_schema(Redis& redis, const Keys& keys, SchemaCheck mode = SchemaCheck::kCheckOnly);
// Says how many groups there are, unless somebody did. In a cluster alone.
void append_partition_count(Pipeline& out, const Keys& keys);

}  // namespace freshet::redis
