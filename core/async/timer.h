// A timer of the loop that forgets its function when it is destroyed, set anew or cancelled. Asio's
// own still calls one whose time had come, without an error, when it only waited for its turn.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "core/async/event_loop.h"

namespace freshet {

// Of the loop's thread, as all of it.
class Timer {
 public:
  using Clock = EventLoop::Clock;

  explicit Timer(EventLoop& loop) : loop_(loop), timer_(loop.io_) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { cancel(); }

  // Calls `f`, once, in the turn after `when`.
  template <class F>
  void at(Clock::time_point when, F f) {
    cancel();
    timer_.expires_at(when);
    pending_ = std::make_shared<PendingDeadline>(loop_, when);
    timer_.async_wait(
        [this, set = std::weak_ptr<PendingDeadline>(pending_), f = std::move(f)](boost::system::error_code) mutable {
          if (set.expired()) return;
          pending_.reset();
          f();
        });
  }
  template <class F>
  void after(Clock::duration span, F f) {
    at(Clock::now() + span, std::move(f));
  }
  void cancel() {
    if (!pending_) return;
    pending_.reset();
    timer_.cancel();
  }

 private:
  // That the loop is to wake at a time, as long as it lives.
  struct PendingDeadline {
    PendingDeadline(EventLoop& loop, Clock::time_point when) : event_loop(loop), position(loop.timer_deadlines_.insert(when)) {}
    PendingDeadline(const PendingDeadline&) = delete;
    PendingDeadline& operator=(const PendingDeadline&) = delete;
    ~PendingDeadline() { event_loop.timer_deadlines_.erase(position); }
    EventLoop& event_loop;
    std::multiset<Clock::time_point>::iterator position;
  };

  EventLoop& loop_;
  boost::asio::steady_timer timer_;
  std::shared_ptr<PendingDeadline> pending_;
};

}  // namespace freshet
