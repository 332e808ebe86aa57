// Where the master is, by its name, from sentinels (https://redis.io/docs/management/sentinel/).
//
// They are asked again at every new connection, so a failover is followed when the old master is
// lost and when it refuses a write. They are also asked every second: when they name another
// master, each connection to the old one ends at once, with all that waits for its reply, so that
// nothing is taken for done that the old one does when it comes back from the dead. What is
// connected to must call itself master (ROLE).
#pragma once

#include <memory>
#include <vector>

#include "core/async/timer.h"
#include "core/redis/redis_connection.h"

namespace freshet::redis {

// Asks each in turn. Blocks, at most twice `timeout` for each. Errors: kUnavailable,
// "sentinel_lookup_failed".
Result<Endpoint> find_master(const Endpoint& endpoint, milliseconds timeout);

// Of a worker: keeps a connection to each sentinel. Must outlive the links that use it.
class SentinelResolver final : public MasterResolver {
 public:
  // `options`: of a connection to a sentinel; its endpoint says which, and who we are.
  SentinelResolver(EventLoop& loop, const ConnectionOptions& options);
  void start();  // does nothing without sentinels

  // Where the master is now: what the first sentinel says that answers, beginning with the one that
  // answered last. 1 RTT each. Errors: kUnavailable, "sentinel_lookup_failed".
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
  bool lookup_failing_ = false;  // the last question had no answer, and the log says so
};

}  // namespace freshet::redis
