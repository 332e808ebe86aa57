// Interface to Redis for use cases and stores: send a pipeline, await its replies. Implemented by
// RedisConnection (redis_connection.h) and ClusterRedis (cluster/cluster_redis.h) on a worker's
// loop, and by BlockingRedis (blocking_redis.h) for freshetctl and tests.
#pragma once

#include <vector>

#include "core/async/task.h"
#include "core/base/result.h"
#include "core/redis/command.h"
#include "core/redis/reply.h"

namespace freshet::redis {

// One reply per command, in order. is_error() is true for a command that Redis refused.
using Replies = std::vector<Reply>;

class Redis {
 public:
  virtual ~Redis() = default;
  // 1 RTT. Errors: kUnavailable "redis_unavailable": nothing was sent; kUnknownOutcome
  // "redis_timeout" or "redis_lost": sent, but no reply came (the connection is then closed and a
  // new one made). NOSCRIPT is handled here: the scripts are loaded and the command is sent again.
  // `pipeline` must live until the reply.
  virtual Task<Result<Replies>> run(const Pipeline& pipeline) = 0;
  // False while disconnected: run() would fail at once.
  virtual bool ready() const = 0;
};

// run() for one command: its reply, or its error reply mapped by classify().
Task<Result<Reply>> run_one(Redis& redis, const Pipeline& pipeline);
// run() for commands that must all succeed: the first error reply, mapped likewise, is an error.
Task<Result<Replies>> run_all(Redis& redis, const Pipeline& pipeline);

}  // namespace freshet::redis
