// Tracks what a request is doing. Its coroutines carry the trace (task.h), and the slow log, the
// status page and the master that kills a stuck worker read it.
//
// An update is a few plain stores (some nanoseconds); names are formatted only when read.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace freshet {

namespace redis {
class Pipeline;
}

enum class RequestPhase : std::uint8_t { kIdle, kReading, kParse, kRedis, kRecall, kRank, kRender, kCount };
inline constexpr std::array<std::string_view, static_cast<std::size_t>(RequestPhase::kCount)>
    kRequestPhaseNames{"idle", "reading", "parse", "redis", "recall", "rank", "render"};

// A phase and a route (row of the route table from 1; 0: none) packed into one number, as published
// in a worker's slot.
using PackedPhase = std::uint32_t;
constexpr PackedPhase pack_phase(RequestPhase phase, std::uint16_t route) {
  return static_cast<PackedPhase>(route) << 8U | static_cast<PackedPhase>(phase);
}
constexpr RequestPhase phase_of(PackedPhase packed) { return static_cast<RequestPhase>(packed & 0xFFU); }
constexpr std::uint16_t route_of(PackedPhase packed) { return static_cast<std::uint16_t>(packed >> 8U); }

// State of one request; must outlive its coroutines. Loop's thread only.
struct RequestTrace {
  RequestPhase phase = RequestPhase::kReading;
  std::uint16_t route = 0;                  // row of the route table, from 1; 0: not known (yet)
  std::uint32_t round_trips = 0;            // to Redis, started
  std::chrono::microseconds redis_time{0};  // time spent waiting for replies that have arrived
  // Commands whose replies the request is waiting for; null: none.
  const redis::Pipeline* awaited_commands = nullptr;
  // The worker's published phase of its loop; may be null.
  std::atomic<PackedPhase>* published_phase = nullptr;

  void enter_phase(RequestPhase next) {
    phase = next;
    if (published_phase != nullptr)
      published_phase->store(pack_phase(phase, route), std::memory_order_relaxed);
  }
  // Call before waiting for the replies of `commands`, which must live until end_redis_wait().
  void begin_redis_wait(const redis::Pipeline& commands) {
    phase = RequestPhase::kRedis;
    awaited_commands = &commands;
    ++round_trips;
  }
  // Call when the replies have arrived. The phase becomes kRender until the use case sets another.
  void end_redis_wait(std::chrono::microseconds waited) {
    awaited_commands = nullptr;
    redis_time += waited;
    enter_phase(RequestPhase::kRender);
  }
};

// The trace of the request that a coroutine works for, or null.
template <class Promise>
RequestTrace* trace_of(std::coroutine_handle<Promise> coroutine) {
  if constexpr (requires { coroutine.promise().trace; }) {
    return coroutine.promise().trace;
  } else {
    return nullptr;
  }
}

// `co_await set_phase(RequestPhase::kRank);` sets the request's phase. Does not suspend.
struct SetPhaseAwaiter {
  RequestPhase phase;
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> caller) const noexcept {
    if (RequestTrace* trace = trace_of(caller)) trace->enter_phase(phase);
    return false;
  }
  void await_resume() const noexcept {}
};
inline SetPhaseAwaiter set_phase(RequestPhase phase) { return {phase}; }

}  // namespace freshet
