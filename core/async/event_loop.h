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
class Watcher {
 public:
  virtual void on_ready(std::uint32_t events) = 0;

 protected:
  Watcher() = default;
  Watcher(const Watcher&) = default;
  Watcher& operator=(const Watcher&) = default;
  ~Watcher() = default;
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
  bool add(int fd, std::uint32_t events, Watcher& watcher);
  bool modify(int fd, std::uint32_t events, Watcher& watcher);
  // After this no event of this turn that is still undelivered reaches `watcher`; it may be
  // destroyed after the turn (see dispose()).
  void remove(int fd, Watcher& watcher);

  // Destroys `object` when the current turn has ended, so that nobody on the stack still stands in
  // it.
  template <class T>
  void dispose(std::unique_ptr<T> object) {
    garbage_.push_back(std::shared_ptr<void>(std::move(object)));
    request_end_of_turn();
  }

  // `action` runs at the end of each turn in which request_end_of_turn() was called, in the order
  // added. Returns what forget_action() takes.
  std::size_t at_end_of_turn(std::function<void()> action);
  void forget_action(std::size_t id) { actions_[id] = nullptr; }
  // Asks for the end-of-turn actions, of the next turn if none is under way.
  void request_end_of_turn() { wanted_ = true; }

  // Calls `f` on the loop's thread in a later turn. From any thread.
  void post(std::function<void()> f);
  // When the first Timer's time comes; empty when none is set.
  std::optional<Clock::time_point> next_due() const;

  // When the current or last turn learnt what is ready: what it found last has waited since then.
  Clock::time_point turn_began() const { return turn_began_; }

  // Runs until stop(), one turn at least. Calls `each_turn` after every turn.
  void run(const std::function<void()>& each_turn = {});
  // From any thread.
  void stop();

 private:
  friend class Timer;

  void turn();
  void end_turn();
  int longest_wait_ms() const;
  void ring();

  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  std::multiset<Clock::time_point> due_;  // of the Timers that are set
  int epoll_fd_;
  int bell_fd_;  // an eventfd: something was posted
  std::atomic<bool> stopped_{false};
  std::vector<std::function<void()>> actions_;
  std::vector<std::shared_ptr<void>> garbage_;
  std::vector<Watcher*> removed_;
  Clock::time_point turn_began_{};
  bool in_turn_ = false;
  bool wanted_ = false;
};

}  // namespace freshet
