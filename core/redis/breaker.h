// Circuit breaker of a Redis connection: decides when to send, when to back off and when to
// reconnect.
//
// Closed: commands are sent. After `failure_threshold` consecutive failures (a deadline, a lost
// connection, a failed connect) the breaker opens: nothing is sent for a delay that doubles each
// time, up to `max_delay`. Then a new connection is made and checked with PING. Half-open: one
// pipeline at a time is sent; a reply closes the breaker, a failure opens it for twice as long. A
// server that answers nothing but PING thus costs a deadline to one request now and then, not to
// every request.
//
// A single slow reply costs the connection (redis_connection.h) but no delay: the next one is made
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
  int failure_threshold = 3;      // consecutive
  milliseconds open_delay{100};   // first delay after opening
  milliseconds closed_delay{50};  // delay after the second consecutive failure while still closed
  milliseconds max_delay{2000};   // upper bound of every delay
};

// How a connection failed. A refusal is cheap on both sides, so it is retried sooner.
enum class FailureKind : std::uint8_t {
  kTimeout,
  kRefused,  // no server, the connection was closed, or an error reply to the handshake
};

class Breaker {
 public:
  explicit Breaker(BreakerOptions options) : options_(options) {}

  // Returns how long to wait before the next attempt. `random` in [0, 1) shortens the delay by up
  // to a quarter, so that workers do not retry in lockstep. After a refusal the delay is at most
  // kMaxRefusedDelay, so that a restarted server is found within a second.
  milliseconds record_failure(FailureKind kind, double random);
  // A new connection answered PING.
  void record_ping();
  // A command was answered.
  void record_success();

  BreakerState state() const { return state_; }
  // Returns true if another pipeline may be sent while `in_flight` are unanswered.
  bool allows(std::size_t in_flight) const {
    return state_ == BreakerState::kClosed || (state_ == BreakerState::kHalfOpen && in_flight == 0);
  }

  static constexpr milliseconds kMaxRefusedDelay{500};

 private:
  BreakerOptions options_;
  BreakerState state_ = BreakerState::kClosed;
  int failures_ = 0;  // consecutive
};

}  // namespace freshet::redis
