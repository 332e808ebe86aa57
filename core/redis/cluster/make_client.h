// The Redis of a worker: one server, or a cluster, as its endpoint says.
#pragma once

#include <memory>
#include <span>

#include "core/redis/redis_client.h"
#include "core/redis/async_connection.h"

namespace freshet::redis {

// `scripts` and `options.finder` outlive it. It does not connect yet.
std::unique_ptr<RedisClient> make_client(EventLoop& loop, ConnectionOptions options,
                                         std::span<const Script> scripts);

}  // namespace freshet::redis
