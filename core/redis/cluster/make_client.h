// Creates a worker's Redis client: one server or a cluster, depending on the endpoint.
#pragma once

#include <memory>
#include <span>

#include "core/redis/async_connection.h"
#include "core/redis/redis_client.h"

namespace freshet::redis {

// `scripts` and `options.resolver` must outlive the client. Does not connect yet.
std::unique_ptr<RedisClient> make_client(EventLoop& loop, ConnectionOptions options,
                                         std::span<const Script> scripts);

}  // namespace freshet::redis
