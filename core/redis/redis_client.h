// Redis on a worker's loop, as whoever owns it sees it: one server (RedisConnection) or the masters
// of a cluster (ClusterRedis). make_client() (cluster/make_client.h) chooses by redis.url.
#pragma once

#include <cstdint>
#include <functional>

#include "core/base/histogram.h"
#include "core/redis/breaker.h"
#include "core/redis/redis.h"

namespace freshet::redis {

class MasterResolver;  // redis_link.h

struct ConnectionCounters {
  std::uint64_t commands = 0;
  std::uint64_t round_trips = 0;  // pipelines sent
  std::uint64_t errors = 0;       // pipelines that failed: away, lost, deadline
  std::uint64_t timeouts = 0;     // contexts destroyed by a deadline
  std::uint64_t connects = 0;     // hand-shakes completed
  ErrorCounts
      errors_by_class;       // pipelines that failed as a whole, connections not made, commands that Redis refused
  Histogram latency;  // of pipelines that were answered: from run() until the reply was read
};

class RedisClient : public Redis {
 public:
  virtual void connect() = 0;  // now; later attempts follow by themselves
  // Fails what is pending and connects no more. For owners that must still be whole when their
  // coroutines resume.
  virtual void close() = 0;
  // Called with true when it becomes ready and with false when it is no longer.
  virtual void on_ready_changed(std::function<void(bool)> listener) = 0;
  virtual const ConnectionCounters& counters() const = 0;
  virtual BreakerState breaker_state() const = 0;  // of several servers, the worst
  // Says where to listen for messages (redis_subscriber.h); null: at the endpoint.
  virtual MasterResolver* resolver() = 0;
};

}  // namespace freshet::redis
