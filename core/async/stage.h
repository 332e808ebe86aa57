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

enum class Doing : std::uint8_t { kIdle, kReading, kParse, kRedis, kRecall, kRank, kRender, kCount };
inline constexpr std::array<std::string_view, static_cast<std::size_t>(Doing::kCount)> kDoingNames{
    "idle", "reading", "parse", "redis", "recall", "rank", "render"};

// A stage and a row of the route table (from 1; 0: none) in one number, as it stands in a worker's
// slot.
using StageWord = std::uint32_t;
constexpr StageWord stage_word(Doing doing, std::uint16_t route) {
  return static_cast<StageWord>(route) << 8U | static_cast<StageWord>(doing);
}
constexpr Doing doing_of(StageWord word) { return static_cast<Doing>(word & 0xFFU); }
constexpr std::uint16_t route_of(StageWord word) { return static_cast<std::uint16_t>(word >> 8U); }

// Of one request; lives until its last coroutine has ended. The loop's thread only.
struct Stage {
  Doing doing = Doing::kReading;
  std::uint16_t route = 0;                   // row of the route table, from 1; 0: not known (yet)
  std::uint32_t round_trips = 0;             // to Redis, begun
  std::chrono::microseconds in_redis{0};     // waiting for the replies that came
  const redis::Pipeline* awaited = nullptr;  // the commands whose replies it waits for
  std::atomic<StageWord>* shown = nullptr;   // where the worker shows what its loop is at; null: nowhere

  void enter(Doing what) {
    doing = what;
    if (shown != nullptr) shown->store(stage_word(doing, route), std::memory_order_relaxed);
  }
  // The coroutine is about to wait for these, which live until left_redis().
  void entered_redis(const redis::Pipeline& commands) {
    doing = Doing::kRedis;
    awaited = &commands;
    ++round_trips;
  }
  // The replies are here. What follows is rendering, until the use-case says otherwise.
  void left_redis(std::chrono::microseconds waited) {
    awaited = nullptr;
    in_redis += waited;
    enter(Doing::kRender);
  }
};

// The stage of the request that a coroutine works for; null when it works for none.
template <class Promise>
Stage* stage_of(std::coroutine_handle<Promise> coroutine) {
  if constexpr (requires { coroutine.promise().stage; }) {
    return coroutine.promise().stage;
  } else {
    return nullptr;
  }
}

// `co_await doing(Doing::kRank);` says what follows. Does not suspend.
struct DoingAwaiter {
  Doing what;
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> caller) const noexcept {
    if (Stage* stage = stage_of(caller)) stage->enter(what);
    return false;
  }
  void await_resume() const noexcept {}
};
inline DoingAwaiter doing(Doing what) { return {what}; }

}  // namespace freshet
