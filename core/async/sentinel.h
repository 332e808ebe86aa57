// Where the master is, by its name, from sentinels (https://redis.io/docs/management/sentinel/).
//
// They are asked again at every new connection, so a failover is followed when the old master is lost, when
// it refuses a write, and, because the answer is also renewed every second, when it still lives and others
// have voted it out. What is connected to must call itself master (ROLE): a server that comes back from the
// dead does until the sentinels reach it, but they no longer name it.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/async/redis_connection.h"

namespace freshet::redis {

// Asks each in turn. Blocks, at most twice `timeout` for each. Errors: kUnavailable, "redis_no_master".
Result<Endpoint> find_master(const Endpoint& endpoint, milliseconds timeout);

// Of a worker: keeps a connection to each sentinel. Must outlive the links that use it.
class MasterFinder {
 public:
  // `options`: of a connection to a sentinel; its endpoint says which, and who we are.
  MasterFinder(EventLoop& loop, const LinkOptions& options);
  void start();

  // Where the master is now: what the first sentinel says that answers, beginning with the one that answered
  // last. 1 RTT each. Errors: kUnavailable, "redis_no_master".
  Task<Result<Endpoint>> find();
  // How often the answer has changed: a connection made before the last time is to the wrong server.
  std::uint64_t moves() const { return moves_; }

 private:
  Task<void> ask_again();
  void schedule();

  const Endpoint endpoint_;
  std::vector<std::unique_ptr<RedisConnection>> sentinels_;
  boost::asio::steady_timer timer_;
  std::size_t answered_last_ = 0;
  Address master_;
  bool lost_ = false;  // the last question had no answer, and the log says so
  std::uint64_t moves_ = 0;
};

}  // namespace freshet::redis
