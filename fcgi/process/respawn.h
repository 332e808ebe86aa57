// How soon a worker that died before it was ready is started again. Pure: `now` is a parameter.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

namespace freshet {

using SteadyTime = std::chrono::steady_clock::time_point;

// 0.1 s after the first death in a row, doubling up to 5 s. REQUIRES: deaths >= 1.
std::chrono::milliseconds respawn_delay(int failed_starts);

// Bounds the forks that follow such deaths, over all workers together: with many workers the delays
// alone would still make a storm. First starts and the replacement of a worker that had been ready
// are not counted and never wait.
class RespawnBudget {
 public:
  // `workers` first starts and the retries after them stay within 20 a minute for up to ten
  // workers; a larger pool gets 10 retries a minute.
  explicit RespawnBudget(std::size_t workers);
  // The earliest moment a retry is allowed: `now`, or when the oldest of the last minute has left
  // it. O(1).
  SteadyTime earliest_retry(SteadyTime now);
  void spend(SteadyTime now) { retries_.push_back(now); }

 private:
  std::size_t max_per_minute_;
  std::deque<SteadyTime> retries_;
};

}  // namespace freshet
