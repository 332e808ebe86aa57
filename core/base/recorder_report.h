// What the recorder says of itself, in memory that all processes share (fcgi/process/scoreboard.h):
// written by the recorder alone, with relaxed atomics, so a reader may see a moment's skew and
// never a torn number. It outlives the process; counters go on from where the one before left them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace freshet {

enum class RecorderState : std::uint32_t { kStarting, kRunning, kPaused };

// Why it waits. Each has a row in kRecorderReasonNames.
enum class RecorderPauseReason : std::uint32_t {
  kNone,
  kRedisUnavailable,
  kDatabaseLocked,
  kDatabaseReadOnly,
  kDatabaseFull,
  kDatabaseNewer,  // a later version of Freshet wrote it
  kDatabaseError,
  kIndexLocked,
  kIndexError,
  kLeaseHeld,  // another process records
  kDatabaseMismatch,  // Redis belongs to another database than ours
  kCount
};

inline constexpr std::array<std::string_view, 3> kRecorderStateNames{"starting", "running", "waiting"};
inline constexpr std::array<std::string_view, static_cast<std::size_t>(RecorderPauseReason::kCount)>
    kRecorderPauseReasonNames{"",
                         "redis_unavailable",
                         "database_locked",
                         "database_read_only",
                         "database_full",
                         "database_newer",
                         "database_error",
                         "index_locked",
                         "index_error",
                         "lease_held",
                         "database_mismatch"};

struct RecorderReport {
  std::atomic<RecorderState> state{RecorderState::kStarting};
  std::atomic<RecorderPauseReason> reason{RecorderPauseReason::kNone};
  std::atomic<std::int64_t> paused_since{0};  // unix seconds; 0: it does not wait
  std::atomic<std::uint64_t> entries{0};       // of the stream, committed and acknowledged
  std::atomic<std::uint64_t> malformed{0};     // of these; left out, with a line in the log
  std::atomic<std::int64_t> items{0};          // in the database
  std::atomic<std::int64_t> last_commit{0};    // unix seconds; 0: none yet
  std::atomic<std::uint64_t> lag_entries{0};   // in the stream, not yet acknowledged
  std::atomic<std::int64_t> lag_age_ms{0};     // of the oldest of these
};

}  // namespace freshet
