#include "core/redis/schema.h"

#include <algorithm>

#include "core/redis/fields.h"

namespace freshet::redis {

namespace {

Task<Result<void>> check_partition_count(Redis& redis, const Keys& keys, SchemaCheck mode) {
  Pipeline query;
  if (mode == SchemaCheck::kInitialize) append_partition_count(query, keys);
  query.add("GET", keys.partition_count_key());
  FRESHET_CO_TRY(replies, co_await run_all(redis, query));
  const std::string found(replies->back().text()), ours = std::to_string(keys.partition_count());
  if (found.empty() || found == ours) co_return Result<void>();
  if (found == kRepartitioning)
    co_return fail(
        ErrorCode::kConflict, "partitions_mismatch", {},
        "a repartition of the articles in Redis was interrupted: run `freshetctl repartition` again");
  co_return fail(ErrorCode::kConflict, "partitions_mismatch", {},
                 "the articles in Redis are in " + found + " partitions, but redis.partitions is " + ours +
                     ": correct it, or stop all services and run `freshetctl repartition`");
}

}  // namespace

void append_partition_count(Pipeline& out, const Keys& keys) {
  if (keys.in_cluster()) out.add("SET", keys.partition_count_key(), keys.partition_count(), "NX");
}

void append_restoring(Pipeline& out, const Keys& keys) {
  for (const PartitionKeys& each : keys.partitions()) out.add("HSET", each.meta(), "schema", kRestoring);
  if (keys.in_cluster()) out.add("SET", keys.partition_count_key(), keys.partition_count());
}

// `schema` is written with the parameters of a rank. In schema 1 they were in `formula`, without a
// version.
Task<Result<void>> check_schema(Redis& redis, const Keys& keys, SchemaCheck mode) {
  Pipeline query;
  for (const PartitionKeys& each : keys.partitions()) query.add("HMGET", each.meta(), "formula", "schema");
  FRESHET_CO_TRY(replies, co_await run_all(redis, query));
  std::string found;
  for (const Reply& meta : *replies) {
    const std::string version(string_at(meta, 1));
    const std::string partition_version = version.empty() && !string_at(meta, 0).empty() ? "1" : version;
    if (!partition_version.empty() && partition_version != std::to_string(kSchemaVersion))
      found = partition_version;
  }
  if (found.empty() && !keys.in_cluster()) co_return Result<void>();
  if (found.empty()) {
    auto groups = co_await check_partition_count(redis, keys, mode);
    co_return groups;
  }
  if (found == kRestoring)
    co_return fail(ErrorCode::kConflict, "restore_interrupted", {},
                   "a restore is running or was interrupted; if none is running, repeat `freshetctl restore "
                   "DIR --replace`");
  co_return fail(
      ErrorCode::kConflict, "schema_mismatch", {},
      "the data in Redis has schema " + found + ", but this program supports only schema " +
          std::to_string(kSchemaVersion) +
          ": back it up with the version of Freshet that wrote it and restore the backup with this "
          "one, or use an empty Redis or another redis.key_prefix");
}

std::string_view info_value(std::string_view info, std::string_view name) {
  while (!info.empty()) {
    const std::string_view line = info.substr(0, info.find("\r\n"));
    info.remove_prefix(std::min(line.size() + 2, info.size()));
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':'))
      return line.substr(name.size() + 1);
  }
  return {};
}

// Valkey's redis_version is that of the Redis that it is compatible with.
std::string server_name(std::string_view info) {
  if (const std::string_view version = info_value(info, "valkey_version"); !version.empty())
    return "Valkey " + std::string(version);
  const std::string_view version = info_value(info, "redis_version");
  return version.empty() ? std::string() : "Redis " + std::string(version);
}

Result<void> check_server_version(std::string_view info) {
  const std::string_view version = info_value(info, "redis_version");
  if (version.empty()) return {};
  if (parse_or_zero<int>(version.substr(0, version.find('.'))) >= 7) return {};
  return fail(
      ErrorCode::kUnavailable, "redis_too_old", {},
      server_name(info) +
          " lacks EXPIRE with GT and SET with NX and GET: Freshet needs Redis 7.0 or later, or Valkey");
}

}  // namespace freshet::redis
