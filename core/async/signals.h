// Delivers signals through the event loop.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>

#include "core/async/event_loop.h"

namespace freshet {

// Blocks the signals in this thread (and those it starts later) and calls `on_signal` on the loop.
// Several signals of one number that arrive before the loop reads them give one call. Signals that
// the process ignores are delivered too.
class Signals final : private FdHandler {
 public:
  // Throws std::system_error.
  Signals(EventLoop& loop, std::initializer_list<int> numbers, std::function<void(int)> on_signal);
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  // Leaves the signals blocked.
  ~Signals();

 private:
  void on_ready(std::uint32_t events) override;

  EventLoop& loop_;
  std::function<void(int)> on_signal_;
  int fd_;
};

}  // namespace freshet
