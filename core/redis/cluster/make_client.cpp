#include "core/redis/cluster/make_client.h"

#include <utility>

#include "core/redis/cluster/cluster_redis.h"

namespace freshet::redis {

std::unique_ptr<RedisClient> make_client(EventLoop& loop, ConnectionOptions options,
                                         std::span<const Script> scripts) {
  if (options.endpoint.is_cluster()) return std::make_unique<ClusterRedis>(loop, std::move(options), scripts);
  return std::make_unique<RedisConnection>(loop, std::move(options), scripts);
}

}  // namespace freshet::redis
