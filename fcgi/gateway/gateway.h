// The gateway of one worker: takes connections from nginx, hands whole requests to the application, sends the
// replies.
//
// Hundreds of connections live in one loop. Each is registered once, edge-triggered; an idle, slow or
// half-sent one costs a small object and holds nobody up. Bytes are collected until framing says that a whole
// request is there; only then libfcgi decodes it, from memory. Replies leave without blocking; what does not
// fit waits for EPOLLOUT under a deadline, as an unfinished request does.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/async/event_loop.h"
#include "core/async/task.h"
#include "fcgi/gateway/deadlines.h"
#include "fcgi/gateway/framing.h"
#include "fcgi/gateway/request.h"

namespace freshet::gateway {

struct GatewayOptions {
  FrameLimits limits{};
  std::chrono::milliseconds read_timeout{5000};
  std::chrono::milliseconds write_timeout{5000};
  std::size_t max_in_flight = 1024;
  std::vector<std::string> allowed_clients{};  // addresses; empty: all. TCP only
};

struct GatewayCounters {
  std::uint64_t accepted = 0;         // connections
  std::uint64_t requests = 0;         // replies handed over or under way
  std::uint64_t protocol_errors = 0;  // connections closed for what they sent
  std::uint64_t read_timeouts = 0;
  std::uint64_t write_timeouts = 0;
  std::uint64_t overloaded = 0;  // refused because max_in_flight was reached
  std::uint32_t in_flight = 0;
  std::uint32_t max_in_flight = 0;  // the most there has been
};

// The application: fills `response`. Request and response live until the task has ended. A task that throws
// costs its connection.
using Application = std::function<Task<void>(Request&, Response&)>;

class Connection;

class Gateway final : public Watcher {
 public:
  // `overloaded` fills the reply for a request beyond max_in_flight. Must outlive the loop's run.
  Gateway(EventLoop& loop, GatewayOptions options, Application application,
          std::function<void(Response&)> overloaded);
  ~Gateway();

  // Takes connections from this listening socket (non-blocking, shared with other workers; stays the
  // caller's).
  void listen(int listen_fd);
  // Takes over a connected socket, which it will close. For tests and fuzzers.
  void adopt(int fd);
  // Takes no new connections, serves those it has, never closes one first (nginx might be sending on it)
  // until `deadline`, when idle ones are closed and busy ones after their reply. Calls `done` when none is
  // left.
  void drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done);

  const GatewayCounters& counters() const { return counters_; }
  std::size_t connections() const { return connections_.size(); }

 private:
  friend class Connection;
  void on_ready(std::uint32_t events) override;
  bool admit(int fd) const;
  void pause_accepting();
  void closed(Connection& connection);
  bool last_request() const { return past_deadline_; }

  EventLoop& loop_;
  GatewayOptions options_;
  Application application_;
  std::function<void(Response&)> overloaded_;
  Deadlines<Connection> reading_;
  Deadlines<Connection> writing_;
  boost::asio::steady_timer accept_timer_;
  boost::asio::steady_timer drain_timer_;
  std::list<std::unique_ptr<Connection>> connections_;
  std::vector<char> scratch_;  // what one read takes; a whole request is usually decoded right here
  std::function<void()> drained_;
  GatewayCounters counters_;
  int listen_fd_ = -1;
  bool past_deadline_ = false;
};

}  // namespace freshet::gateway
