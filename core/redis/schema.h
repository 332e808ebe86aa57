// Schema version of the data in Redis: key names and contents (keys.h).
#pragma once

#include <cstdint>

#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::redis {

inline constexpr int kSchemaVersion = 2;

// kInitialize: a service, which records the partition count in an empty cluster.
enum class SchemaCheck : std::uint8_t { kCheckOnly, kInitialize };

// Checks that the data in Redis matches this program. 1 RTT, in a cluster 2. An empty Redis matches
// any schema. Errors, with a detail for the administrator: kConflict "schema_mismatch"; kConflict
// "partitions_mismatch" if the partition count differs from that of `keys` or is being changed;
// errors of Redis.
Task<Result<void>> check_schema(Redis& redis, const Keys& keys, SchemaCheck mode = SchemaCheck::kCheckOnly);
// Records the partition count unless it is recorded already. Only in a cluster.
void append_partition_count(Pipeline& out, const Keys& keys);

}  // namespace freshet::redis
