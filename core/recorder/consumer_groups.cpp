#include "core/recorder/consumer_groups.h"

#include <chrono>

#include "core/redis/fields.h"

namespace freshet::recorder {
namespace {

using redis::Pipeline;
using redis::Reply;

std::int64_t unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<milliseconds>(now).count();
}

}  // namespace

Result<bool> has_groups(redis::BlockingRedis& redis, const redis::Keys& keys) {
  Pipeline query;
  for (const redis::PartitionKeys& each : keys.partitions()) query.add("XINFO", "GROUPS", each.stream());
  FRESHET_TRY(replies, redis.call(query));
  bool all_exist = true;
  for (const Reply& groups : *replies) {
    const bool absent = groups.error() == "ERR no such key";
    if (groups.is_error() && !absent) return tl::unexpected(redis::classify(groups.error()));
    bool found = false;
    for (std::size_t i = 0; i < groups.size(); ++i)
      found |= redis::field_value(groups[i], "name") == kConsumerGroup;
    all_exist &= found;
  }
  return all_exist;
}

Result<void> create_groups(redis::BlockingRedis& redis, const redis::Keys& keys) {
  Pipeline command;
  for (const redis::PartitionKeys& each : keys.partitions())
    command.add("XGROUP", "CREATE", each.stream(), kConsumerGroup, "0", "MKSTREAM");
  FRESHET_TRY(replies, redis.call(command));
  for (const Reply& reply : *replies) {
    const std::string_view error = reply.error();
    if (!error.empty() && !error.starts_with("BUSYGROUP")) return tl::unexpected(redis::classify(error));
  }
  return {};
}

Result<void> recreate_groups_after_loss(redis::BlockingRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(recorded, redis.call_all(Pipeline().add("SET", keys.data_lost_at(), unix_ms())));
  return create_groups(redis, keys);
}

Result<std::string> recorded_data_loss(redis::BlockingRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(replies, redis.call_all(Pipeline().add("GET", keys.data_lost_at())));
  return std::string(replies->front().text());
}

Result<void> clear_data_loss(redis::BlockingRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(replies, redis.call_all(Pipeline().add("DEL", keys.data_lost_at())));
  return {};
}

}  // namespace freshet::recorder
