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

Result<bool> has_group(redis::SyncRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(replies, redis.call(Pipeline().add("XINFO", "GROUPS", keys.stream())));
  const Reply& groups = replies->front();
  if (groups.error() == "ERR no such key") return false;
  if (groups.is_error()) return tl::unexpected(redis::classify(groups.error()));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (redis::value_of(groups[i], "name") == kGroup) return true;
  }
  return false;
}

Result<void> make_group(redis::SyncRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(replies,
              redis.call(Pipeline().add("XGROUP", "CREATE", keys.stream(), kGroup, "0", "MKSTREAM")));
  const std::string_view error = replies->front().error();
  if (!error.empty() && !error.starts_with("BUSYGROUP")) return tl::unexpected(redis::classify(error));
  return {};
}

Result<void> make_lost_group(redis::SyncRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(noted, redis.call_all(Pipeline().add("SET", keys.lost(), unix_ms())));
  return make_group(redis, keys);
}

Result<std::string> noted_loss(redis::SyncRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(replies, redis.call_all(Pipeline().add("GET", keys.lost())));
  return std::string(replies->front().text());
}

Result<void> forget_loss(redis::SyncRedis& redis, const redis::Keys& keys) {
  FRESHET_TRY(replies, redis.call_all(Pipeline().add("DEL", keys.lost())));
  return {};
}

}  // namespace freshet::recorder
