// The scoreboard: one slot a worker in memory shared by the master and all workers. Each slot is written by
// its own worker only (the master resets it when the worker is replaced), with relaxed atomics, so a reader
// may see a moment's skew and never a torn number. Totals are sums over slots; nothing is incremented by one
// process and decremented by another.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <sys/types.h>

#include "core/base/recorder_report.h"

namespace freshet {

// Why a request was refused or not counted; each has a row in refusal_names (scoreboard.cpp) and a key in
// /status.
enum class Refusal : std::uint8_t {
  kBot,
  kBadJson,
  kBadMember,
  kTooLarge,
  kNotFound,
  kMethod,
  kForbidden,
  kUnauthorised,
  kDenied,         // by clients.deny_file
  kForeignOrigin,  // a page of another site
  kRateLimited,    // a visitor's token bucket was empty
  kOverLimit,
  kRedisAway,
  kSpoolFull,
  kDeadline,
  kProtocol,
  kReadTimeout,
  kWriteTimeout,
  kCount
};
std::string_view refusal_name(Refusal reason);

enum class WorkerState : std::uint32_t { kEmpty, kStarting, kReady, kDraining };

struct alignas(64) WorkerSlot {
  std::atomic<WorkerState> state{WorkerState::kEmpty};
  std::atomic<pid_t> pid{0};
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::int64_t> started_at{0};    // unix seconds
  std::atomic<std::int64_t> last_turn_ms{0};  // CLOCK_MONOTONIC; the master's watchdog reads it
  std::atomic<std::uint64_t> accepted{0};     // connections
  std::atomic<std::uint64_t> requests{0};     // replies finished
  std::atomic<std::uint32_t> connections{0};
  std::atomic<std::uint32_t> in_flight{0};
  std::atomic<std::uint32_t> max_in_flight{0};
  std::atomic<std::uint64_t> redis_commands{0}, redis_round_trips{0}, redis_errors{0}, redis_reconnects{0};
  std::atomic<std::uint32_t> redis_ready{0};
  std::atomic<std::uint64_t> background_queued{0}, background_done{0}, background_dropped{0},
      spooled_bytes{0}, spooled{0}, replayed{0};
  std::atomic<std::uint64_t> background_age_ms{0};  // of the oldest command that is queued or spooled
  std::atomic<std::uint64_t> queued_writes{0};      // answered 202
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Refusal::kCount)> refused{};
};

// Serves, and has no request inside. A worker that is not idle still takes further requests beside those it
// has: "idle" says whether a request that comes now would have it for itself.
bool is_idle(const WorkerSlot& slot);
// Serves, and has at least one request inside.
bool is_busy(const WorkerSlot& slot);

struct PoolCounters {
  std::atomic<std::int64_t> started_at{0};
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint32_t> reloads{0}, failed_reloads{0}, respawns{0};
  // Written by the master once a second (scaling.h), as PHP-FPM counts them:
  std::atomic<std::uint32_t> max_active{0};            // the most workers that were busy at once
  std::atomic<std::uint32_t> max_children_reached{0};  // so often none was idle and no more were allowed
  std::atomic<std::uint32_t> emergency_restarts{0};    // new generations after deaths by a signal
};

// A child beside the workers, as the master knows it (companion.h).
struct CompanionSlot {
  std::atomic<bool> wanted{false};
  std::atomic<pid_t> pid{0};  // 0: none lives
  std::atomic<std::int64_t> started_at{0};
  std::atomic<std::uint32_t> respawns{0};
};

// Sums over all slots, dead workers included.
struct Totals {
  std::uint64_t accepted = 0, requests = 0;
  std::uint64_t redis_commands = 0, redis_round_trips = 0, redis_errors = 0, redis_reconnects = 0;
  std::uint64_t background_queued = 0, background_done = 0, background_dropped = 0, spooled = 0, replayed = 0,
                queued_writes = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Refusal::kCount)> refused{};
  // Of the living workers, this moment:
  std::uint64_t connections = 0, in_flight = 0, spooled_bytes = 0;
  std::uint64_t background_age_ms = 0;  // the greatest
  std::uint32_t max_in_flight = 0;      // of any one worker, ever
  std::uint32_t workers = 0, ready = 0, redis_ready = 0;
};

// Counters of dead workers are folded into `retired` by the master, so totals never go back.
class Scoreboard {
 public:
  // Maps memory for `slots` workers, shared with children forked later. Throws std::system_error.
  explicit Scoreboard(std::size_t slots);
  ~Scoreboard();
  Scoreboard(const Scoreboard&) = delete;
  Scoreboard& operator=(const Scoreboard&) = delete;

  std::span<WorkerSlot> slots();
  WorkerSlot& retired();
  PoolCounters& pool();
  CompanionSlot& recorder();
  CompanionSlot& status();
  RecorderReport& recorder_report();  // written by the recorder itself
  // Master only: adds a dead worker's counters to `retired` and empties its slot.
  void retire(WorkerSlot& slot);
  // Any process. Counters never go back from one call to the next, also while the master retires a slot.
  // O(slots).
  Totals totals() const;

 private:
  struct Memory;
  Memory* memory_;
  std::size_t slots_;
};

}  // namespace freshet
