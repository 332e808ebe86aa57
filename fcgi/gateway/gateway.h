// A worker's gateway: accepts connections from nginx, passes complete requests to the application
// and sends the replies.
//
// Hundreds of connections share one loop. Each is registered once, edge-triggered; an idle, slow or
// half-sent one costs a small object and blocks no other. Bytes are collected until framing finds a
// complete request; only then does libfcgi decode it, from memory. Replies are sent without
// blocking. A reply that does not fit into the socket's buffer waits for EPOLLOUT under a deadline,
// as an incomplete request does.
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
#include "core/base/network_set.h"
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
  std::chrono::milliseconds slow_timeout{0};  // 0: requests are never reported as slow
  // requests publish the loop's current phase here; null: not published
  std::atomic<PackedPhase>* phase_slot = nullptr;
  std::size_t max_in_flight = 1024;
  NetworkSet allowed_clients{};  // empty: all. TCP only
};

struct GatewayCounters {
  std::uint64_t accepted = 0;         // connections
  std::uint64_t requests = 0;         // replies sent or being sent
  std::uint64_t protocol_errors = 0;  // connections closed because of what they sent
  std::uint64_t read_timeouts = 0;
  std::uint64_t write_timeouts = 0;
  std::uint64_t overloaded = 0;   // refused because max_in_flight was reached
  std::uint64_t over_budget = 0;  // requests that ran out of their time budget
  std::uint32_t in_flight = 0;
  std::uint32_t detached = 0;        // in flight, already answered, still running
  std::uint32_t peak_in_flight = 0;  // the highest value so far
};

// The application: fills `response`. Request and response live until the task has ended. If the
// task throws, its connection is closed.
using RequestHandler = std::function<Task<void>(Request&, Response&)>;

// Fills the reply if the application does not answer, or not in time.
enum class RefusalReason : std::uint8_t { kOverloaded, kOverBudget };
using RefusalHandler = std::function<void(const Request&, RefusalReason, Response&)>;

class Gateway final : public FdHandler {
 public:
  // `observer` may be null. The gateway must outlive the loop's run.
  Gateway(EventLoop& loop, GatewayOptions options, RequestHandler serve, RefusalHandler refuse,
          Observer* observer = nullptr);
  ~Gateway();

  // Accepts connections from this listening socket (non-blocking, shared with other workers, owned
  // by the caller).
  void listen(int listen_fd);
  // Takes ownership of a connected socket. For tests and fuzzers.
  void adopt(int fd);
  // Stops accepting and serves the existing connections. Leaves closing them to nginx, which might
  // be sending on one, until `deadline`; then closes idle ones at once and busy ones after their
  // reply. Calls `done` when no connection or detached request is left.
  void drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done);

  const GatewayCounters& counters() const { return counters_; }
  std::size_t connections() const { return connections_.size(); }
  // The oldest request in progress that has a budget; null if there is none.
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
  std::list<std::unique_ptr<Exchange>> detached_;  // answered but still running
  std::vector<char> read_buffer_;  // for one read; usually a complete request is decoded directly from it
  std::function<void()> on_drained_;
  GatewayCounters counters_;
  int listen_fd_ = -1;
  bool past_deadline_ = false;
};

}  // namespace freshet::gateway
