// What a request is doing now: carried by the coroutines that work for it (task.h), so that whoever
// looks, the slow log, the status page, the master that kills a stuck worker, can say it.
//
// A few plain stores at each step (some nanoseconds); nothing is named or formatted until somebody
// asks.
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
inline constexpr std::array<std::string_view, static_cast<std::size_t>(RequestPhase::kCount)> kRequestPhaseNames{
    "idle", "reading", "parse", "redis", "recall", "rank", "render"};

// A stage and a row of the route table (from 1; 0: none) in one number, as it stands in a worker's
// slot.
using PackedPhase = std::uint32_t;
constexpr PackedPhase pack_phase(RequestPhase phase, std::uint16_t route) {
  return static_cast<PackedPhase>(route) << 8U | static_cast<PackedPhase>(phase);
}
constexpr RequestPhase phase_of(PackedPhase packed) { return static_cast<RequestPhase>(packed & 0xFFU); }
constexpr std::uint16_t route_of(PackedPhase packed) { return static_cast<std::uint16_t>(packed >> 8U); }

// Of one request; lives until its last coroutine has ended. The loop's thread only.
struct RequestTrace {
  RequestPhase phase = RequestPhase::kReading;
  std::uint16_t route = 0;                   // row of the route table, from 1; 0: not known (yet)
  std::uint32_t round_trips = 0;             // to Redis, begun
  std::chrono::microseconds redis_time{0};     // waiting for the replies that came
  const redis::Pipeline* awaited_commands = nullptr;  // the commands whose replies it waits for
  std::atomic<PackedPhase>* published_phase = nullptr;   // where the worker shows what its loop is at; null: nowhere

  void enter_phase(RequestPhase next) {
    phase = next;
    if (published_phase != nullptr) published_phase->store(pack_phase(phase, route), std::memory_order_relaxed);
  }
  // The coroutine is about to wait for these, which live until left_redis().
  void begin_redis_wait(const redis::Pipeline& commands) {
    phase = RequestPhase::kRedis;
    awaited_commands = &commands;
    ++round_trips;
  }
  // The replies are here. What follows is rendering, until the use-case says otherwise.
  void end_redis_wait(std::chrono::microseconds waited) {
    awaited_commands = nullptr;
    redis_time += waited;
    enter_phase(RequestPhase::kRender);
  }
};

// The stage of the request that a coroutine works for; null when it works for none.
template <class Promise>
RequestTrace* trace_of(std::coroutine_handle<Promise> coroutine) {
  if constexpr (requires { coroutine.promise().stage; }) {
    return coroutine.promise().stage;
  } else {
    return nullptr;
  }
}

// `co_await doing(Doing::kRank);` says what follows. Does not suspend.
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
