// The gateway of one worker: takes connections from nginx, hands whole requests to the application,
// sends the replies.
//
// Hundreds of connections live in one loop. Each is registered once, edge-triggered; an idle, slow
// or half-sent one costs a small object and holds nobody up. Bytes are collected until framing says
// that a whole request is there; only then libfcgi decodes it, from memory. Replies leave without
// blocking; what does not fit waits for EPOLLOUT under a deadline, as an unfinished request does.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/async/task.h"
#include "core/async/timer.h"
#include "fcgi/gateway/deadlines.h"
#include "fcgi/gateway/exchange.h"
#include "fcgi/gateway/framing.h"
#include "fcgi/gateway/observer.h"
#include "fcgi/gateway/request.h"

namespace freshet::gateway {

struct GatewayOptions {
  FrameLimits limits{};
  std::chrono::milliseconds read_timeout{5000};
  std::chrono::milliseconds write_timeout{5000};
  std::chrono::milliseconds request_budget{200};
  std::chrono::milliseconds bulk_budget{30000};
  std::chrono::milliseconds slow_timeout{0};  // 0: no request is slow
  std::atomic<PackedPhase>* phase_slot = nullptr;    // where requests show what the loop is at; null: nowhere
  std::size_t max_in_flight = 1024;
  std::vector<std::string> allowed_clients{};  // addresses; empty: all. TCP only
};

struct GatewayCounters {
  std::uint64_t accepted = 0;         // connections
  std::uint64_t requests = 0;         // replies handed over or under way
  std::uint64_t protocol_errors = 0;  // connections closed for what they sent
  std::uint64_t read_timeouts = 0;
  std::uint64_t write_timeouts = 0;
  std::uint64_t overloaded = 0;   // refused because max_in_flight was reached
  std::uint64_t over_budget = 0;  // answered because their budget was used up
  std::uint32_t in_flight = 0;
  std::uint32_t detached = 0;           // of these, answered already: their coroutines have not ended
  std::uint32_t peak_in_flight = 0;  // the most there has been
};

// The application: fills `response`. Request and response live until the task has ended. A task
// that throws costs its connection.
using RequestHandler = std::function<Task<void>(Request&, Response&)>;

// Fills the reply to a request that the application does not, or not in time, answer.
enum class RefusalReason : std::uint8_t { kOverloaded, kOverBudget };
using RefusalHandler = std::function<void(const Request&, RefusalReason, Response&)>;

class Gateway final : public FdHandler {
 public:
  // `observer` may be null. Must outlive the loop's run.
  Gateway(EventLoop& loop, GatewayOptions options, RequestHandler serve, RefusalHandler refuse, Observer* observer = nullptr);
  ~Gateway();

  // Takes connections from this listening socket (non-blocking, shared with other workers; stays
  // the caller's).
  void listen(int listen_fd);
  // Takes over a connected socket, which it will close. For tests and fuzzers.
  void adopt(int fd);
  // Takes no new connections, serves those it has, never closes one first (nginx might be sending
  // on it) until `deadline`, when idle ones are closed and busy ones after their reply. Calls
  // `done` when none is left.
  void drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done);

  const GatewayCounters& counters() const { return counters_; }
  std::size_t connections() const { return connections_.size(); }
  // The request that has waited longest of those that have a budget; null when none waits.
  const Request* oldest_request() const;

 private:
  friend class Connection;
  void on_ready(std::uint32_t events) override;
  bool is_allowed_client(int fd) const;
  void pause_accepting();
  void on_closed(Connection& connection);
  void start(Exchange& exchange);
  void on_ended(Exchange& exchange, std::exception_ptr thrown);
  void start_deadlines(Exchange& exchange);
  void cancel_deadlines(Exchange& exchange);
  void on_over_budget(Exchange& exchange);
  void on_slow(Exchange& exchange);
  std::unique_ptr<Exchange> make_exchange(Connection& connection);
  void detach(std::unique_ptr<Exchange> exchange);
  void report_answered(Exchange& exchange, const Response& response);
  void check_drained();
  Deadlines<Exchange>* budget_deadlines(Budget budget);
  bool is_past_deadline() const { return past_deadline_; }

  EventLoop& loop_;
  GatewayOptions options_;
  RequestHandler serve_;
  RefusalHandler refuse_;
  Observer* observer_;
  Deadlines<Connection> reading_;
  Deadlines<Connection> writing_;
  Deadlines<Exchange> budget_;
  Deadlines<Exchange> bulk_budget_;
  Deadlines<Exchange> slow_;
  Timer accept_timer_;
  Timer drain_timer_;
  std::list<std::unique_ptr<Connection>> connections_;
  std::list<std::unique_ptr<Exchange>> detached_;  // answered, and still running
  std::vector<char> read_buffer_;  // what one read takes; a whole request is usually decoded right here
  std::function<void()> on_drained_;
  GatewayCounters counters_;
  int listen_fd_ = -1;
  bool past_deadline_ = false;
};

}  // namespace freshet::gateway
