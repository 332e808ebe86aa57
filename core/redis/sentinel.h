// Resolves the current master through Redis Sentinel (https://redis.io/docs/management/sentinel/).
//
// The sentinels are queried before every connection attempt, so a failover is followed when the old
// master is lost or refuses a write. They are also polled every second: when they name another
// master, every connection to the old one is closed at once and its pending pipelines fail, so that
// writes acknowledged by a demoted master are not mistaken for durable ones. A server must report
// the role master (ROLE) before it is used.
#pragma once

#include <memory>
#include <vector>

#include "core/async/timer.h"
#include "core/redis/redis_connection.h"

namespace freshet::redis {

// Asks one sentinel after the other. Blocks for at most twice `timeout` per sentinel. Errors:
// kUnavailable, "sentinel_lookup_failed".
Result<Endpoint> find_master(const Endpoint& endpoint, milliseconds timeout);

// Keeps a worker's connections to the sentinels. Must outlive the connections that use it.
class SentinelResolver final : public MasterResolver {
 public:
  // `options`: for the connections to the sentinels; its endpoint has their addresses and
  // credentials.
  SentinelResolver(EventLoop& loop, const ConnectionOptions& options);
  void start();  // no effect without sentinels

  // The current master according to the first sentinel that answers, starting with the last one
  // that did. 1 RTT each. Errors: kUnavailable, "sentinel_lookup_failed".
  Task<Result<Endpoint>> resolve() override;

 private:
  Task<void> poll();
  void update_master(const Address& master);
  void schedule_poll();

  const Endpoint endpoint_;
  std::vector<std::unique_ptr<RedisConnection>> sentinels_;
  Timer timer_;
  std::size_t last_responder_ = 0;
  Address master_;
  bool lookup_failing_ = false;  // the last lookup failed, which has been logged
};

}  // namespace freshet::redis
