// Checks that a server and the data in it suit this program: its version, and the schema version of
// the data, that is, of key names and contents (keys.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::redis {

inline constexpr int kSchemaVersion = 3;

// kInitialize: a service, which records the partition count in an empty cluster.
enum class SchemaCheck : std::uint8_t { kCheckOnly, kInitialize };

// The schema version of data that is being restored: it may be incomplete, and may contain erased
// readers. hot::rebuild_ranks() writes the final one.
inline constexpr std::string_view kRestoring = "restoring";
// Marks every partition, and in a cluster replaces the recorded partition count.
void append_restoring(Pipeline& out, const Keys& keys);

// Checks that the data in Redis matches this program. 1 RTT, in a cluster 2. An empty Redis matches
// any schema. Errors, with a detail for the administrator: kConflict "schema_mismatch"; kConflict
// "restore_interrupted"; kConflict "partitions_mismatch" if the partition count differs from that
// of `keys` or is being changed; errors of Redis.
Task<Result<void>> check_schema(Redis& redis, const Keys& keys, SchemaCheck mode = SchemaCheck::kCheckOnly);
// Records the partition count unless it is recorded already. Only in a cluster.
void append_partition_count(Pipeline& out, const Keys& keys);

// Value of the line "name:value" in the output of INFO; "" if there is none.
std::string_view info_value(std::string_view info, std::string_view name);
// "Valkey 8.1.1" or "Redis 7.0.15", from the output of INFO server; "" if it has no version.
std::string server_name(std::string_view info);
// Error kUnavailable "redis_too_old", with the required version in the detail, if the server lacks
// commands that Freshet sends. Succeeds if INFO has no version.
Result<void> check_server_version(std::string_view info);

}  // namespace freshet::redis
