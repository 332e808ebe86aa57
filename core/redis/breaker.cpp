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

milliseconds Breaker::record_failure(FailureKind kind, double random) {
  constexpr int kMaxDoublings = 16;
  ++failures_;
  milliseconds wait{0};
  if (failures_ >= options_.failure_threshold) {
    state_ = BreakerState::kOpen;
    wait = options_.open_delay * (1 << std::min(failures_ - options_.failure_threshold, kMaxDoublings));
  } else if (failures_ > 1) {
    wait = options_.closed_delay * (1 << std::min(failures_ - 2, kMaxDoublings));
  }
  wait = std::min(wait, options_.max_delay);
  if (kind == FailureKind::kRefused) wait = std::min(wait, kMaxRefusedDelay);
  return std::chrono::duration_cast<milliseconds>(wait * (1 - random / 4));
}

void Breaker::record_ping() {
  if (state_ == BreakerState::kOpen) state_ = BreakerState::kHalfOpen;
}

void Breaker::record_success() {
  failures_ = 0;
  state_ = BreakerState::kClosed;
}

}  // namespace freshet::redis
