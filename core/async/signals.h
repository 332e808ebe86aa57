// Signals as events of the loop.
#pragma once

#include <functional>
#include <initializer_list>

#include "core/async/event_loop.h"

namespace freshet {

// From its construction on, the signals are blocked in this thread (and in those that it starts)
// and come to `on_signal`, on the loop, one call for those of a number that came before the loop
// looked; also one that the process ignores.
class Signals final : private FdHandler {
 public:
  // Throws std::system_error.
  Signals(EventLoop& loop, std::initializer_list<int> numbers, std::function<void(int)> on_signal);
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  // They stay blocked.
  ~Signals();

 private:
  void on_ready(std::uint32_t events) override;

  EventLoop& loop_;
  std::function<void(int)> on_signal_;
  int fd_;
};

}  // namespace freshet
