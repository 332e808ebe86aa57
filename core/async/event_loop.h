// The worker's loop: an epoll set of its own beside a Boost.Asio io_context.
//
// A turn is one epoll_wait: it takes what is ready, gives it to the watchers, polls Asio when a
// Timer's time has come or something was posted, then runs the end-of-turn actions (this is where
// the Redis commands of the whole turn leave in one write). Connections are registered once,
// edge-triggered, and stay: Asio's own descriptors would cost two more system calls a turn.
//
// Fork rule: made after the fork, in the worker; a child that closes an inherited epoll set or
// io_context would take events from its parent.
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

// Something registered with the loop. on_ready() gets epoll's event bits.
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

  // Registers, changes or removes `fd`. `events` are epoll bits (EPOLLIN | EPOLLET …). False with
  // errno on failure.
  bool add(int fd, std::uint32_t events, FdHandler& handler);
  bool modify(int fd, std::uint32_t events, FdHandler& handler);
  // After this no event of this turn that is still undelivered reaches `watcher`; it may be
  // destroyed after the turn (see dispose()).
  void remove(int fd, FdHandler& handler);

  // Destroys `object` when the current turn has ended, so that nobody on the stack still stands in
  // it.
  template <class T>
  void destroy_later(std::unique_ptr<T> object) {
    to_destroy_.push_back(std::shared_ptr<void>(std::move(object)));
    request_iteration_end_actions();
  }

  // `action` runs at the end of each turn in which request_end_of_turn() was called, in the order
  // added. Returns what forget_action() takes.
  std::size_t add_iteration_end_action(std::function<void()> action);
  void remove_iteration_end_action(std::size_t id) { end_actions_[id] = nullptr; }
  // Asks for the end-of-turn actions, of the next turn if none is under way.
  void request_iteration_end_actions() { end_actions_requested_ = true; }

  // Calls `f` on the loop's thread in a later turn. From any thread.
  void post(std::function<void()> f);
  // When the first Timer's time comes; empty when none is set.
  std::optional<Clock::time_point> next_timer_due() const;

  // When the current or last turn learnt what is ready: what it found last has waited since then.
  Clock::time_point iteration_start() const { return iteration_start_; }

  // Runs until stop(), one turn at least. Calls `each_turn` after every turn.
  void run(const std::function<void()>& on_iteration = {});
  // From any thread.
  void stop();

 private:
  friend class Timer;

  void run_iteration();
  void run_end_actions();
  int epoll_timeout_ms() const;
  void wake_up();

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_guard_{io_.get_executor()};
  std::multiset<Clock::time_point> timer_deadlines_;  // of the Timers that are set
  int epoll_fd_;
  int wakeup_fd_;  // an eventfd: something was posted
  std::atomic<bool> stopped_{false};
  std::vector<std::function<void()>> end_actions_;
  std::vector<std::shared_ptr<void>> to_destroy_;
  std::vector<FdHandler*> removed_;
  Clock::time_point iteration_start_{};
  bool in_iteration_ = false;
  bool end_actions_requested_ = false;
};

}  // namespace freshet
