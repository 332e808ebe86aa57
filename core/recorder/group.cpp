#include "core/recorder/group.h"

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
  Pipeline look;
  for (const redis::PartitionKeys& each : keys.partitions()) look.add("XINFO", "GROUPS", each.stream());
  FRESHET_TRY(replies, redis.call(look));
  bool all = true;
  for (const Reply& groups : *replies) {
    const bool absent = groups.error() == "ERR no such key";
    if (groups.is_error() && !absent) return tl::unexpected(redis::classify(groups.error()));
    bool found = false;
    for (std::size_t i = 0; i < groups.size(); ++i) found |= redis::field_value(groups[i], "name") == kGroup;
    all &= found;
  }
  return all;
}

Result<void> make_groups(redis::BlockingRedis& redis, const redis::Keys& keys) {
  Pipeline make;
  for (const redis::PartitionKeys& each : keys.partitions())
    make.add("XGROUP", "CREATE", each.stream(), kGroup, "0", "MKSTREAM");
  FRESHET_TRY(replies, redis.call(make));
  for (const Reply& made : *replies) {
    const std::string_view error = made.error();
    if (!error.empty() && !error.starts_with("BUSYGROUP")) return tl::unexpected(redis::classify(error));
  }
  return {};
}

Result<void> make_lost_groups(redis::BlockingRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(noted, redis.call_all(Pipeline().add("SET", keys.data_lost_at(), unix_ms())));
  return make_groups(redis, keys);
}

Result<std::string> noted_loss(redis::BlockingRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(replies, redis.call_all(Pipeline().add("GET", keys.data_lost_at())));
  return std::string(replies->front().text());
}

Result<void> forget_loss(redis::BlockingRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(replies, redis.call_all(Pipeline().add("DEL", keys.data_lost_at())));
  return {};
}

}  // namespace freshet::recorder
