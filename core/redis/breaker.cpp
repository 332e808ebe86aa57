#include "core/redis/breaker.h"

#include <algorithm>

namespace freshet::redis {

std::string_view breaker_state_name(BreakerState state) {
  switch (state) {
    case BreakerState::kClosed:
      return "closed";
    case BreakerState::kOpen:
      return "open";
    case BreakerState::kHalfOpen:
      break;
  }
  return "half-open";
}

milliseconds Breaker::failed(Failure how, double random) {
  constexpr int kMostDoublings = 16;
  ++failures_;
  milliseconds wait{0};
  if (failures_ >= options_.failures) {
    state_ = BreakerState::kOpen;
    wait = options_.open * (1 << std::min(failures_ - options_.failures, kMostDoublings));
  } else if (failures_ > 1) {
    wait = options_.first * (1 << std::min(failures_ - 2, kMostDoublings));
  }
  wait = std::min(wait, options_.most);
  if (how == Failure::kRefused) wait = std::min(wait, kMostRefused);
  return std::chrono::duration_cast<milliseconds>(wait * (1 - random / 4));
}

void Breaker::answered() {
  if (state_ == BreakerState::kOpen) state_ = BreakerState::kHalfOpen;
}

void Breaker::succeeded() {
  failures_ = 0;
  state_ = BreakerState::kClosed;
}

}  // namespace freshet::redis
