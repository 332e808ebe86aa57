// Deadlines of many objects with a single timer: all have the same length, so the oldest is the
// next to expire.
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <utility>

#include "core/async/timer.h"

namespace freshet::gateway {

template <class T>
class Deadlines {
 public:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    T* subject;
    Clock::time_point at;
  };
  // The position of a subject's deadline; none() if it has none.
  using Handle = typename std::list<Entry>::iterator;

  // `expired(subject)` is called when a subject's deadline has passed, and must cancel it.
  Deadlines(EventLoop& loop, Clock::duration length, std::function<void(T&)> expired)
      : timer_(loop), length_(length), expired_(std::move(expired)) {}

  Handle none() { return entries_.end(); }
  // O(1).
  Handle start(T& subject) { return start(subject, Clock::now()); }
  // Counts from `since`, which must be close to now: O(deadlines that started later).
  Handle start(T& subject, Clock::time_point since) {
    auto before = entries_.end();
    while (before != entries_.begin() && std::prev(before)->at > since + length_) --before;
    const Handle handle = entries_.insert(before, {&subject, since + length_});
    if (!armed_) arm();
    return handle;
  }
  // The subject that expires first; null if there is none.
  const T* first() const { return entries_.empty() ? nullptr : entries_.front().subject; }
  // O(1). No effect on none().
  void cancel(Handle& handle) {
    if (handle != entries_.end()) entries_.erase(handle);
    handle = entries_.end();
  }

 private:
  void arm() {
    armed_ = true;
    timer_.at(entries_.front().at, [this] {
      armed_ = false;
      const auto now = Clock::now();
      while (!entries_.empty() && entries_.front().at <= now) expired_(*entries_.front().subject);
      if (!entries_.empty()) arm();
    });
  }

  Timer timer_;
  Clock::duration length_;
  std::function<void(T&)> expired_;
  std::list<Entry> entries_;
  bool armed_ = false;
};

}  // namespace freshet::gateway
