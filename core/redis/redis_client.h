// A worker's Redis client as its owner sees it: one server (RedisConnection) or a cluster
// (ClusterRedis). make_client() (cluster/make_client.h) chooses by redis.url.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/histogram.h"
#include "core/redis/breaker.h"
#include "core/redis/redis.h"

namespace freshet::redis {

class MasterResolver;  // async_connection.h

struct ConnectionCounters {
  std::uint64_t commands = 0;
  std::uint64_t round_trips = 0;  // pipelines sent
  std::uint64_t errors = 0;       // pipelines that failed: not sent, lost, deadline
  std::uint64_t timeouts = 0;     // connections closed because of a deadline
  std::uint64_t connects = 0;     // completed handshakes
  // Pipelines that failed as a whole, failed connects, commands that Redis refused.
  ErrorCounts errors_by_class;
  Histogram latency;  // of answered pipelines, from run() until the reply was read
};

class RedisClient : public Redis {
 public:
  virtual void connect() = 0;  // connects now; reconnects automatically later
  // Fails pending pipelines and stops connecting. For owners that must still be intact when their
  // coroutines resume.
  virtual void close() = 0;
  // Calls `listener` with true when the client becomes ready, with false when it stops being ready.
  virtual void on_ready_changed(std::function<void(bool)> listener) = 0;
  virtual const ConnectionCounters& counters() const = 0;
  virtual BreakerState breaker_state() const = 0;  // with several servers, the worst state
  // Resolves where to subscribe to messages (redis_subscriber.h); null: at the endpoint.
  virtual MasterResolver* resolver() = 0;
};

}  // namespace freshet::redis
