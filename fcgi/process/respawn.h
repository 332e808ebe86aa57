// Delays before a worker that died before it was ready is started again. Pure: `now` is a
// parameter.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

namespace freshet {

using SteadyTime = std::chrono::steady_clock::time_point;

// 0.1 s after the first consecutive failure, doubling up to 5 s. REQUIRES: failed_starts >= 1.
std::chrono::milliseconds respawn_delay(int failed_starts);

// Bounds such retries over all workers together: with many workers the delays alone would still
// allow too many forks. First starts and replacements of workers that were ready do not count and
// never wait.
class RespawnBudget {
 public:
  // Up to ten workers: first starts and retries together stay within 20 a minute. More workers: 10
  // retries a minute.
  explicit RespawnBudget(std::size_t workers);
  // The earliest time a retry is allowed: `now`, or when the oldest retry of the last minute
  // expires. Amortized O(1).
  SteadyTime earliest_retry(SteadyTime now);
  void spend(SteadyTime now) { retries_.push_back(now); }

 private:
  std::size_t max_per_minute_;
  std::deque<SteadyTime> retries_;
};

}  // namespace freshet
