// One worker's part of the scoreboard (scoreboard.h): written by that worker alone, with relaxed
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
#include "core/base/histogram.h"
#include "core/base/crash_journal.h"
#include "core/redis/errors.h"

namespace freshet {

// Of each number by itself: readers take what they find, and no number guards another.
inline constexpr auto kRelaxed = std::memory_order_relaxed;

// Why a request was refused or not counted; each has a row in kRefusalNames (slot.cpp) and a key in
// /status.
enum class Refusal : std::uint8_t {
  kBot,
  kBadJson,
  kBadMember,
  kTooLarge,
  kNotFound,
  kMethodNotAllowed,
  kForbidden,
  kUnauthorised,
  kDenied,         // by clients.deny_file
  kForeignOrigin,  // a page of another site
  kRateLimited,    // a visitor's token bucket was empty
  kNetworkLimited,
  kServiceLimited,
  kUnverifiedQuota,  // an article that nobody vouched for, beyond what a network or the service has
  kVisitorQuota,         // counted, but not as a visitor: limits.uv_per_network
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

// A Histogram that others may read.
struct SharedHistogram {
  std::array<std::atomic<std::uint64_t>, kDurationBuckets> counts{};
  std::atomic<std::uint64_t> sum_us{0};

  void add(std::chrono::microseconds duration);  // by its one writer
  void store(const Histogram& histogram);
};

// Of one row of the route table; row 0 is what no route matched.
inline constexpr std::size_t kMaxRoutes = 64;
struct RouteCounters {
  SharedHistogram latency;                             // from the first byte to the reply
  std::array<std::atomic<std::uint64_t>, 5> status{};  // replies 1xx … 5xx
};

// A request as the status page shows it. Text is cut, and ends with a zero.
struct RequestSnapshot {
  std::int64_t received_us = 0;  // CLOCK_MONOTONIC
  std::int64_t duration_us = 0;  // 0: it is still running
  std::int64_t content_length = 0;
  std::array<char, 8> method{};
  std::array<char, 96> path{};  // without the query, which may name readers
};

// A value of several words that one process writes and others read whole. There are two copies: the
// one of the current version is complete, the next value is written to the other. So a writer that
// is stopped or killed half-way leaves the value before.
template <class Value>
class DoubleBuffered {
  static constexpr std::size_t kWords = sizeof(Value) / sizeof(std::uint64_t);
  static_assert(sizeof(Value) % sizeof(std::uint64_t) == 0);
  using Words = std::array<std::uint64_t, kWords>;

 public:
  void store(const Value& value) {
    const auto words = std::bit_cast<Words>(value);
    const auto next = version_.load(std::memory_order_relaxed) + 1;
    // Whoever sees one of these words sees that the version before was complete, and looks again.
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < kWords; ++i) copies_[next % 2][i].store(words[i], std::memory_order_relaxed);
    version_.store(next, std::memory_order_release);
  }
  // Tries again while it is overtaken; a writer that never pauses for as long as reading takes
  // could overtake it for ever.
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

// An empty one is all zeros. What is looked at of every slot comes first: of those that no worker
// ever had one page is in memory.
struct alignas(64) WorkerSlot {
  std::atomic<WorkerState> state{WorkerState::kEmpty};
  std::atomic<pid_t> pid{0};
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::int64_t> started_at{0};    // unix seconds
  std::atomic<std::int64_t> last_iteration_ms{0};  // CLOCK_MONOTONIC; the master's watchdog reads it
  std::atomic<PackedPhase> phase{0};            // what its loop is at, this moment
  std::atomic<std::uint64_t> accepted{0};     // connections
  std::atomic<std::uint64_t> requests{0};     // replies finished
  std::atomic<std::uint64_t> slow_requests{0};
  std::atomic<std::uint64_t> over_budget{0};  // answered because their budget was used up
  std::atomic<std::uint32_t> connections{0};
  std::atomic<std::uint32_t> in_flight{0};
  std::atomic<std::uint32_t> detached{0};  // of these, answered already; their coroutines have not ended
  std::atomic<std::uint32_t> max_in_flight{0};
  std::atomic<std::uint64_t> list_hits{0}, list_misses{0};  // hot lists from this worker's snapshot, or not
  std::atomic<std::uint64_t> item_cache_hits{0}, item_cache_misses{0};  // of items, from its memory, or not
  std::atomic<std::uint64_t> item_cache_bytes{0};
  std::atomic<std::uint64_t> feed_impressions{0};                               // items on pages of feeds
  std::atomic<std::uint64_t> feed_pages{0}, feed_pages_degraded{0};  // all, and of them those that say so
  std::atomic<std::uint64_t> invalidations_ignored{0};  // messages on hot:epoch that are none of ours
  std::atomic<std::uint64_t> redis_commands{0}, redis_round_trips{0}, redis_errors{0}, redis_reconnects{0};
  std::array<std::atomic<std::uint64_t>, redis::kErrorClasses> redis_errors_by_class{};
  std::atomic<std::uint32_t> redis_ready{0};
  std::atomic<std::uint32_t> redis_breaker{0};  // redis::BreakerState of the connection that requests use
  std::atomic<std::uint64_t> background_queued{0}, background_done{0}, background_dropped{0},
      spooled_bytes{0}, spooled{0}, replayed{0};
  std::atomic<std::uint64_t> background_age_ms{0};  // of the oldest command that is queued or spooled
  std::atomic<std::uint64_t> queued_writes{0};      // answered 202
  // Twice a second:
  std::atomic<std::uint64_t> rss_bytes{0}, peak_rss_bytes{0};
  std::atomic<std::uint64_t> cpu_us{0};           // user and system, since its start
  std::atomic<std::uint32_t> cpu_permille{0};     // of one core, lately
  std::atomic<std::int64_t> model_trained_at{0};  // unix seconds; 0: no model
  // Asked every two seconds: one more than there are; 0: it cannot be searched.
  std::atomic<std::uint64_t> index_documents_plus_one{0};
  std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(Refusal::kCount)> refused{};
  SharedHistogram redis_latency;  // of pipelines
  SharedHistogram loop_iterations;          // of the loop: what came last in a turn has waited so long
  DoubleBuffered<RequestSnapshot> request;   // the one that has been inside longest; when none is, the last
  CrashJournal crash_journal;                // articles whose events it counted lately; outlives it
  std::array<RouteCounters, kMaxRoutes> routes{};
};

// Serves, and has no request inside. A worker that is not idle still takes further requests beside
// those it has: "idle" says whether a request that comes now would have it for itself.
bool is_idle(const WorkerSlot& slot);
// Serves, and has at least one request inside.
bool is_busy(const WorkerSlot& slot);

}  // namespace freshet
