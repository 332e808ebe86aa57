// When a connection to Redis is tried again, and when it is left alone.
//
// closed: commands go. After `failures` failures in a row (a deadline, a lost connection, one that
// was not made) it is open: nothing is sent for a while, which doubles each time up to `most`. Then
// a new connection is made and asked by PING: half open, one pipeline at a time goes, and its reply
// closes the breaker while its failure opens it for twice as long. So a server that answers PING
// and nothing else costs one request a deadline now and then, not each of them.
//
// A single slow reply costs its connection (redis_connection.h) but no wait: the next one is made
// at once. Pure: no clock, no randomness, no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/time.h"

namespace freshet::redis {

enum class BreakerState : std::uint8_t { kClosed, kOpen, kHalfOpen };
std::string_view breaker_state_name(BreakerState state);  // "closed", "open", "half-open"

struct BreakerOptions {
  int failure_threshold = 3;         // in a row
  milliseconds open_delay{100};   // the first time
  milliseconds closed_delay{50};   // wait after the second failure in a row, while it is closed
  milliseconds max_delay{2000};  // of all waits
};

// How it failed. What is refused at once costs the server and us nothing to ask again.
enum class FailureKind : std::uint8_t {
  kTimeout,   // a deadline passed
  kRefused,  // no server, the connection ended, or the hand-shake was answered by an error
};

class Breaker {
 public:
  explicit Breaker(BreakerOptions options) : options_(options) {}

  // How long nothing may be tried now. `random` in [0, 1) shortens it by up to a quarter, so that
  // workers do not come back in step. After a refusal it is at most kMostRefused, so that a server
  // that starts again is found within a second.
  milliseconds record_failure(FailureKind kind, double random);
  // A new connection answered its PING.
  void record_ping();
  // A command had its reply.
  void record_success();

  BreakerState state() const { return state_; }
  // Whether a pipeline may be sent when so many are under way.
  bool allows(std::size_t in_flight) const {
    return state_ == BreakerState::kClosed || (state_ == BreakerState::kHalfOpen && in_flight == 0);
  }

  static constexpr milliseconds kMaxRefusedDelay{500};

 private:
  BreakerOptions options_;
  BreakerState state_ = BreakerState::kClosed;
  int failures_ = 0;  // in a row
};

}  // namespace freshet::redis
