// A timer of the loop that forgets its function when it is destroyed. Asio's own still calls one whose time
// had come, without an error, when it only waited for its turn.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "core/async/event_loop.h"

namespace freshet {

class Timer {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Timer(EventLoop& loop) : timer_(loop.io()) {}
  // Calls `f`, once. Setting it anew or cancelling forgets an `f` whose time has not come; one whose time has
  // may be called still, as long as the timer lives.
  template <class F>
  void at(Clock::time_point when, F f) {
    timer_.expires_at(when);
    timer_.async_wait(
        [alive = std::weak_ptr<char>(alive_), f = std::move(f)](boost::system::error_code error) {
          if (!error && !alive.expired()) f();
        });
  }
  template <class F>
  void after(Clock::duration span, F f) {
    at(Clock::now() + span, std::move(f));
  }
  void cancel() { timer_.cancel(); }

 private:
  boost::asio::steady_timer timer_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace freshet
