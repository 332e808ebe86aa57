#include "fcgi/process/respawn.h"

#include <algorithm>

namespace freshet {

using namespace std::chrono_literals;

std::chrono::milliseconds respawn_delay(int failed_starts) {
  return std::min<std::chrono::milliseconds>(100ms * (1 << std::min(failed_starts - 1, 6)), 5s);
}

RespawnBudget::RespawnBudget(std::size_t workers)
    : max_per_minute_(20 - std::min<std::size_t>(workers, 10)) {}

SteadyTime RespawnBudget::earliest_retry(SteadyTime now) {
  while (!retries_.empty() && retries_.front() + 1min <= now) retries_.pop_front();
  return retries_.size() < max_per_minute_ ? now : retries_.front() + 1min;
}

}  // namespace freshet
