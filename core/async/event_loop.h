// The worker's loop: one epoll set, registered as a single descriptor of a Boost.Asio io_context.
//
// Asio's own descriptors re-arm epoll at every wait, one system call a request; here a connection is
// registered once, edge-triggered, and stays. Asio keeps what it is good at: timers, signals, the thread
// pool's completions. One *turn* takes what epoll has ready, gives it to the watchers, then runs the
// end-of-turn actions (this is where the Redis commands of the whole turn leave in one write).
//
// Fork rule: made after the fork, in the worker; a child that closes an inherited epoll set or io_context
// would take events from its parent.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
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
  EventLoop();  // throws std::system_error
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  ~EventLoop();

  boost::asio::io_context& io() { return io_; }

  // Registers, changes or removes `fd`. `events` are epoll bits (EPOLLIN | EPOLLET …). False with errno on
  // failure.
  bool add(int fd, std::uint32_t events, Watcher& watcher);
  bool modify(int fd, std::uint32_t events, Watcher& watcher);
  // After this no event of this turn that is still undelivered reaches `watcher`; it may be destroyed after
  // the turn (see dispose()).
  void remove(int fd, Watcher& watcher);

  // Destroys `object` when the current turn has ended, so that nobody on the stack still stands in it.
  template <class T>
  void dispose(std::unique_ptr<T> object) {
    garbage_.push_back(std::shared_ptr<void>(std::move(object)));
    request_end_of_turn();
  }

  // `action` runs at the end of each turn in which request_end_of_turn() was called, in the order added.
  // Returns what forget_action() takes.
  std::size_t at_end_of_turn(std::function<void()> action);
  void forget_action(std::size_t id) { actions_[id] = nullptr; }
  // Asks for the end-of-turn actions; outside a turn (a timer, a signal) they are posted.
  void request_end_of_turn();

  // When the current or last turn learnt what is ready: what it found last has waited since then.
  std::chrono::steady_clock::time_point turn_began() const { return turn_began_; }

  // Runs until stop(). Calls `each_turn` after every turn.
  void run(std::function<void()> each_turn = {});
  void stop() { io_.stop(); }

 private:
  void arm();
  void turn();
  void end_turn();

  boost::asio::io_context io_{1};
  int epoll_fd_;
  boost::asio::posix::stream_descriptor descriptor_;
  std::vector<std::function<void()>> actions_;
  std::vector<std::shared_ptr<void>> garbage_;
  std::vector<Watcher*> removed_;
  std::function<void()> each_turn_;
  std::chrono::steady_clock::time_point turn_began_{};
  bool in_turn_ = false;
  bool wanted_ = false;
};

}  // namespace freshet
