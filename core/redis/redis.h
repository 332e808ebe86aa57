// What use-cases and stores need of Redis: send a pipeline, await its replies. RedisConnection
// (redis_connection.h) is the real one, on the worker's loop; SyncRedis (sync_redis.h) the blocking
// one for freshetctl and tests.
#pragma once

#include <vector>

#include "core/async/task.h"
#include "core/base/result.h"
#include "core/redis/command.h"
#include "core/redis/reply.h"

namespace freshet::redis {

using Replies =
    std::vector<Reply>;  // one a command, in order; a command the server refused is a Reply with is_error()

class Redis {
 public:
  virtual ~Redis() = default;
  // 1 RTT. Errors: kUnavailable, "redis_unavailable" — nothing was sent; kUnknownOutcome, "redis_timeout"
  // or "redis_lost" — sent, but no reply came (the connection is then gone and is being made anew).
  // NOSCRIPT is cured inside, by SCRIPT LOAD and once again. `pipeline` must live until the reply.
  virtual Task<Result<Replies>> run(const Pipeline& pipeline) = 0;
  // False while disconnected: run() would fail at once.
  virtual bool ready() const = 0;
};

// run() for one command: its reply, or the error the server answered (through classify()).
Task<Result<Reply>> run_one(Redis& redis, const Pipeline& pipeline);
// run() of commands none of which may be refused: else the first refusal, likewise.
Task<Result<Replies>> run_all(Redis& redis, const Pipeline& pipeline);

}  // namespace freshet::redis
