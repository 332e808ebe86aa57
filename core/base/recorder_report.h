// The recorder's state and counters, in memory shared by all processes (fcgi/process/scoreboard.h).
// Only the recorder writes, with relaxed atomics: a reader may see values of slightly different
// moments, but no torn number. Outlives the process; the next recorder continues the counters.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace freshet {

enum class RecorderState : std::uint32_t { kStarting, kRunning, kPaused };

// Why recording is paused. Each has a row in kRecorderPauseReasonNames.
enum class RecorderPauseReason : std::uint32_t {
  kNone,
  kRedisUnavailable,
  kDatabaseLocked,
  kDatabaseReadOnly,
  kDatabaseFull,
  kDatabaseNewer,  // written by a later version of Freshet
  kDatabaseError,
  kIndexLocked,
  kIndexError,
  kLeaseHeld,         // another process holds the lease
  kDatabaseMismatch,  // Redis belongs to another database
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
  std::atomic<std::int64_t> paused_since{0};  // Unix seconds; 0: not paused
  std::atomic<std::uint64_t> entries{0};      // stream entries committed and acknowledged
  std::atomic<std::uint64_t> malformed{0};    // entries skipped with a log line; included in `entries`
  std::atomic<std::int64_t> items{0};         // in the database
  std::atomic<std::int64_t> last_commit{0};   // Unix seconds; 0: none yet
  std::atomic<std::uint64_t> lag_entries{0};  // in the stream, not yet acknowledged
  std::atomic<std::int64_t> lag_age_ms{0};    // age of the oldest of these
  // Progress of a rebuild of the index; 0 without one.
  std::atomic<std::int64_t> reindexed_items{0}, items_to_reindex{0};
};

}  // namespace freshet
