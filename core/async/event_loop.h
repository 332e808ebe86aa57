// The worker's event loop: its own epoll set next to a Boost.Asio io_context.
//
// One iteration is one epoll_wait(): it calls the handlers of ready descriptors, polls Asio if a
// Timer is due or something was posted, and then runs the end-of-iteration actions (one of them
// writes all Redis commands of the iteration at once). Connections are registered once,
// edge-triggered; Asio's descriptors would cost two more system calls per iteration.
//
// Create after fork(), in the worker: a child that closes an inherited epoll set or io_context
// would take events from its parent.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace freshet {

// A handler for a file descriptor. on_ready() gets epoll's event bits.
class FdHandler {
 public:
  virtual void on_ready(std::uint32_t events) = 0;

 protected:
  FdHandler() = default;
  FdHandler(const FdHandler&) = default;
  FdHandler& operator=(const FdHandler&) = default;
  ~FdHandler() = default;
};

class EventLoop {
 public:
  using Clock = std::chrono::steady_clock;

  EventLoop();  // throws std::system_error
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop();

  // Registers, changes or removes `fd`. `events` are epoll bits (EPOLLIN | EPOLLET …). Returns
  // false and sets errno on failure.
  bool add(int fd, std::uint32_t events, FdHandler& handler);
  bool modify(int fd, std::uint32_t events, FdHandler& handler);
  // `handler` gets no further events, not even those of this iteration. It may be destroyed after
  // the iteration (destroy_later()).
  void remove(int fd, FdHandler& handler);

  // Destroys `object` at the end of the current iteration, so that code on the stack may still use
  // it.
  template <class T>
  void destroy_later(std::unique_ptr<T> object) {
    to_destroy_.push_back(std::shared_ptr<void>(std::move(object)));
    request_iteration_end_actions();
  }

  // Runs `action` at the end of each iteration in which request_iteration_end_actions() was called.
  // Actions run in the order added. Returns the id for remove_iteration_end_action().
  std::size_t add_iteration_end_action(std::function<void()> action);
  void remove_iteration_end_action(std::size_t id) { end_actions_[id] = nullptr; }
  // Requests the end-of-iteration actions, for the next iteration if none is running.
  void request_iteration_end_actions() { end_actions_requested_ = true; }

  // Calls `f` on the loop's thread in a later iteration. Thread-safe.
  void post(std::function<void()> f);
  // When the first Timer is due; nullopt if none is set.
  std::optional<Clock::time_point> next_timer_due() const;

  // When epoll_wait() last returned: what this iteration found had been ready since then at the
  // latest.
  Clock::time_point iteration_start() const { return iteration_start_; }

  // Runs until stop(), for at least one iteration. Calls `on_iteration` after each.
  void run(const std::function<void()>& on_iteration = {});
  // Thread-safe.
  void stop();

 private:
  friend class Timer;

  void run_iteration();
  void run_end_actions();
  int epoll_timeout_ms() const;
  void wake_up();

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_guard_{io_.get_executor()};
  std::multiset<Clock::time_point> timer_deadlines_;  // deadlines of all set timers
  int epoll_fd_;
  int wakeup_fd_;  // eventfd: something was posted
  std::atomic<bool> stopped_{false};
  std::vector<std::function<void()>> end_actions_;
  std::vector<std::shared_ptr<void>> to_destroy_;
  std::vector<FdHandler*> removed_;
  Clock::time_point iteration_start_{};
  bool in_iteration_ = false;
  bool end_actions_requested_ = false;
};

}  // namespace freshet
