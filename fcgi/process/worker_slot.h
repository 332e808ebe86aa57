// A worker's slot of the scoreboard (scoreboard.h). Only that worker writes it, with relaxed
// atomics; the master resets it when the worker is replaced.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <sys/types.h>

#include "core/async/request_trace.h"
#include "core/base/crash_journal.h"
#include "core/base/histogram.h"
#include "core/redis/errors.h"

namespace freshet {

// Each number stands alone: none guards another.
inline constexpr auto kRelaxed = std::memory_order_relaxed;

// Why a request was refused or not counted. Each has a name in kRefusalNames (worker_slot.cpp),
// which is a key in /status.
enum class Refusal : std::uint8_t {
  kBot,
  kBadJson,
  kBadMember,
  kTooLarge,
  kNotFound,
  kMethodNotAllowed,
  kForbidden,
  kUnauthorised,
  kDenied,         // clients.deny_file
  kForeignOrigin,  // request from a page of another site
  kRateLimited,    // the visitor's token bucket was empty
  kNetworkLimited,
  kServiceLimited,
  kUnverifiedQuota,  // unverified article beyond the quota of a network or the service
  kPageViewQuota,    // not counted: limits.pv_per_network
  kOverloaded,
  kRedisUnavailable,
  kSpoolFull,
  kDeadline,
  kProtocol,
  kReadTimeout,
  kWriteTimeout,
  kCount
};
std::string_view refusal_name(Refusal reason);

enum class WorkerState : std::uint32_t { kEmpty, kStarting, kReady, kDraining };

// A Histogram that other processes may read.
struct SharedHistogram {
  std::array<std::atomic<std::uint64_t>, kDurationBuckets> counts{};
  std::atomic<std::uint64_t> sum_us{0};

  void add(std::chrono::microseconds duration);  // one writer
  void store(const Histogram& histogram);
};

// Counters of one row of the route table. Row 0 counts requests that match no route.
inline constexpr std::size_t kMaxRoutes = 64;
struct RouteCounters {
  SharedHistogram latency;                             // from the first byte to the response
  std::array<std::atomic<std::uint64_t>, 5> status{};  // responses 1xx … 5xx
};

// A request as the status page shows it. Text is truncated and zero-terminated.
struct RequestSnapshot {
  std::int64_t received_us = 0;  // CLOCK_MONOTONIC
  std::int64_t duration_us = 0;  // 0: still running
  std::int64_t content_length = 0;
  std::array<char, 8> method{};
  std::array<char, 96> path{};  // without the query, which may contain reader ids
};

// A value of several words that one process writes and others read consistently. Has two copies:
// the one of the current version is complete while the next value is written to the other. A writer
// that is stopped or killed midway leaves the previous value.
template <class Value>
class DoubleBuffered {
  static constexpr std::size_t kWords = sizeof(Value) / sizeof(std::uint64_t);
  static_assert(sizeof(Value) % sizeof(std::uint64_t) == 0);
  using Words = std::array<std::uint64_t, kWords>;

 public:
  void store(const Value& value) {
    const auto words = std::bit_cast<Words>(value);
    const auto next = version_.load(std::memory_order_relaxed) + 1;
    // A reader that sees one of these words also sees that the version is outdated, and retries.
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < kWords; ++i) copies_[next % 2][i].store(words[i], std::memory_order_relaxed);
    version_.store(next, std::memory_order_release);
  }
  // Retries if a writer overtakes it. A writer that never pauses as long as a read takes could
  // overtake it forever; after 10,000 attempts the value may be inconsistent.
  Value load() const {
    Words words{};
    for (int attempt = 0; attempt < 10'000; ++attempt) {
      const auto version = version_.load(std::memory_order_acquire);
      const auto& copy = copies_[version % 2];
      for (std::size_t i = 0; i < kWords; ++i) words[i] = copy[i].load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (version_.load(std::memory_order_relaxed) == version) break;
    }
    return std::bit_cast<Value>(words);
  }

 private:
  std::atomic<std::uint32_t> version_{0};
  std::array<std::array<std::atomic<std::uint64_t>, kWords>, 2> copies_{};
};

// All zeros when empty. The fields that are read for every slot come first, so that an unused slot
// has only one page in memory.
struct alignas(64) WorkerSlot {
  std::atomic<WorkerState> state{WorkerState::kEmpty};
  std::atomic<pid_t> pid{0};
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::int64_t> started_at{0};         // unix seconds
  std::atomic<std::int64_t> last_iteration_ms{0};  // CLOCK_MONOTONIC; read by the master's watchdog
  std::atomic<PackedPhase> phase{0};               // current activity of its loop
  std::atomic<std::uint64_t> accepted{0};          // connections
  std::atomic<std::uint64_t> requests{0};          // responses sent
  std::atomic<std::uint64_t> slow_requests{0};
  std::atomic<std::uint64_t> over_budget{0};  // answered because the time budget was used up
  std::atomic<std::uint32_t> connections{0};
  std::atomic<std::uint32_t> in_flight{0};
  std::atomic<std::uint32_t> detached{0};  // in-flight requests already answered; their coroutines still run
  std::atomic<std::uint32_t> max_in_flight{0};
  // Hot lists served from this worker's snapshot, or not.
  std::atomic<std::uint64_t> list_hits{0}, list_misses{0};
  // Item data served from this worker's memory, or not.
  std::atomic<std::uint64_t> item_cache_hits{0}, item_cache_misses{0};
  std::atomic<std::uint64_t> item_cache_bytes{0};
  std::atomic<std::uint64_t> feed_impressions{0};  // items on feed pages
  std::atomic<std::uint64_t> views_of_tracked{
      0};  // by POST /api/views, of articles that views.from_track counts
  std::atomic<std::uint64_t> feed_pages{0}, feed_pages_degraded{0};  // all, and those marked as degraded
  std::atomic<std::uint64_t> invalidations_ignored{0};  // messages on hot:epoch that Freshet did not send
  std::atomic<std::uint64_t> redis_commands{0}, redis_round_trips{0}, redis_errors{0}, redis_reconnects{0};
  std::array<std::atomic<std::uint64_t>, redis::kErrorClasses> redis_errors_by_class{};
  std::atomic<std::uint32_t> redis_ready{0};
  std::atomic<std::uint32_t> redis_breaker{0};  // redis::BreakerState of the request connection
  std::atomic<std::uint64_t> background_queued{0}, background_done{0}, background_dropped{0},
      spooled_bytes{0}, spooled{0}, replayed{0};
  std::atomic<std::uint64_t> background_age_ms{0};  // age of the oldest queued or spooled command
  std::atomic<std::uint64_t> queued_writes{0};      // answered 202
  // Updated twice a second:
  std::atomic<std::uint64_t> rss_bytes{0}, peak_rss_bytes{0};
  std::atomic<std::uint64_t> cpu_us{0};           // user and system time since the start
  std::atomic<std::uint32_t> cpu_permille{0};     // recent use of one core
  std::atomic<std::int64_t> model_trained_at{0};  // unix seconds; 0: no model
  // Updated every two seconds. 0: the index cannot be searched.
  std::atomic<std::uint64_t> index_documents_plus_one{0};
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Refusal::kCount)> refused{};
  SharedHistogram redis_latency;            // durations of pipelines
  SharedHistogram loop_iterations;          // durations of event loop iterations
  DoubleBuffered<RequestSnapshot> request;  // the oldest request in flight, else the last one
  // Recently counted articles whose rank updates are pending; survives the worker.
  CrashJournal crash_journal;
  std::array<RouteCounters, kMaxRoutes> routes{};
};

// Ready, with no request in flight. A busy worker accepts further requests too; "idle" means that
// the next request would have the worker to itself.
bool is_idle(const WorkerSlot& slot);
// Ready, with at least one request in flight.
bool is_busy(const WorkerSlot& slot);

}  // namespace freshet
