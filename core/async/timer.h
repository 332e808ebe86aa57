// A timer of the event loop whose callback never runs after the timer was canceled, set again or
// destroyed. Asio's timer still calls it, without an error, if it had expired and was only queued.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "core/async/event_loop.h"

namespace freshet {

// Loop's thread only.
class Timer {
 public:
  using Clock = EventLoop::Clock;

  explicit Timer(EventLoop& loop) : loop_(loop), timer_(loop.io_) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;
  ~Timer() { cancel(); }

  // Calls `f` once, in an iteration after `when`. Replaces an earlier call.
  template <class F>
  void at(Clock::time_point when, F f) {
    cancel();
    timer_.expires_at(when);
    pending_ = std::make_shared<PendingDeadline>(loop_, when);
    timer_.async_wait([this, armed = std::weak_ptr<PendingDeadline>(pending_),
                       f = std::move(f)](boost::system::error_code) mutable {
      if (armed.expired()) return;
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
  // While it exists, the loop wakes up at this time.
  struct PendingDeadline {
    PendingDeadline(EventLoop& loop, Clock::time_point when)
        : event_loop(loop), position(loop.timer_deadlines_.insert(when)) {}
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
