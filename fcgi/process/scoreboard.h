// Scoreboard: one slot per worker in memory shared by the master and all workers. Only its own
// worker writes a slot (the master resets it when the worker is replaced). All accesses are relaxed
// atomics: a reader may see slightly inconsistent values, never a torn one. Totals are sums over
// slots; no counter is incremented in one process and decremented in another.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "core/base/dependency.h"
#include "core/base/recorder_report.h"
#include "core/redis/memory_level.h"
#include "fcgi/process/pool_history.h"
#include "fcgi/process/worker_slot.h"

namespace freshet {

struct PoolCounters {
  std::atomic<std::int64_t> started_at{0};
  std::atomic<std::int64_t> reloaded_at{0};  // last successful reload; 0: none
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint32_t> reloads{0}, failed_reloads{0}, respawns{0};
  // Written by the master once a second (pool_scaler.h), with PHP-FPM's meaning:
  std::atomic<std::uint32_t> max_active{0};            // most workers busy at once
  std::atomic<std::uint32_t> max_children_reached{0};  // times no worker was idle and none could be added
  std::atomic<std::uint32_t> emergency_restarts{0};    // new generations after repeated crashes
  // Connections that wait to be accepted, as far as a worker can see (fcgi/worker_report.h).
  // Updated twice a second:
  std::atomic<std::uint32_t> listen_queue{0}, max_listen_queue{0};
};

// State of a helper process (helper_process.h), written by the master.
struct HelperSlot {
  std::atomic<bool> enabled{false};
  std::atomic<pid_t> pid{0};  // 0: not running
  std::atomic<std::int64_t> started_at{0};
  std::atomic<std::uint32_t> respawns{0};
};

// Values read from Redis by one worker for all (fcgi/redis_sampler.h): key statistics every
// kKeyStatsIntervalMs; data loss, memory and the clock every kHealthIntervalMs.
inline constexpr std::int64_t kKeyStatsIntervalMs = 10'000;
inline constexpr std::int64_t kHealthIntervalMs = 1'000;
struct RedisKeyStats {
  std::int64_t sampled_at = 0;  // unix seconds; 0: never
  std::int64_t hot_rank = 0, hot_score = 0, hot_published = 0, hot_hidden = 0, hot_newest = 0;  // members
  std::int64_t stream_entries = 0;
  double stream_fill = 0;  // fill ratio of the fullest partition's stream
  std::int64_t seen_bytes = 0, seen_impressions_today = 0;
  double seen_fill_today = 0, seen_false_positive_rate = 0;
  std::array<char, 16> seen_filter{};  // value of seen.filter
  std::array<char, 32> server{};       // redis::server_name(), truncated
};
using RecorderOwner = std::array<char, 96>;  // "HOST, pid 7", truncated
struct RedisSample {
  // CLOCK_MONOTONIC: when a worker last started to read key_stats
  std::atomic<std::int64_t> key_stats_claimed_ms{0};
  DoubleBuffered<RedisKeyStats> key_stats;         // written by the worker that claimed them
  std::atomic<std::int64_t> health_claimed_ms{0};  // likewise, for the fields below
  std::atomic<std::int64_t> clock_offset_us{0};    // redis_clock_offset(); 0: unknown
  // Unix seconds since when Redis has lacked its items; 0: it has them.
  std::atomic<std::int64_t> data_lost_since{0};
  DoubleBuffered<redis::MemoryLevel> memory;
  DoubleBuffered<RecorderOwner> recorder_owner;  // the current or last recorder, on any host
  std::atomic<bool> memory_full{false};          // copy of MemoryLevel::full, read on every request
};

struct HistogramTotals {
  std::array<std::uint64_t, kDurationBuckets> counts{};
  std::uint64_t sum_us = 0;
  std::uint64_t count() const;
  // Upper bound (µs) of the bucket that holds this quantile. 0 without durations; the last bound if
  // it lies beyond.
  std::int64_t quantile_us(double quantile) const;
};
struct RouteTotals {
  HistogramTotals latency;
  std::array<std::uint64_t, 5> status{};
};

// Sums over all slots, dead workers included.
struct Totals {
  std::uint64_t accepted = 0, requests = 0, slow_requests = 0, over_budget = 0;
  std::uint64_t list_hits = 0, list_misses = 0, item_cache_hits = 0, item_cache_misses = 0,
                feed_impressions = 0, views_of_tracked = 0, invalidations_ignored = 0;
  std::uint64_t feed_pages = 0, feed_pages_degraded = 0;
  std::uint64_t redis_commands = 0, redis_round_trips = 0, redis_errors = 0, redis_reconnects = 0;
  std::uint64_t background_done = 0, background_dropped = 0, spooled = 0, replayed = 0, queued_writes = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Refusal::kCount)> refused{};
  std::array<std::uint64_t, redis::kErrorClasses> redis_errors_by_class{};
  HistogramTotals redis_latency, loop_iterations;
  std::array<RouteTotals, kMaxRoutes> routes{};
  std::uint64_t cpu_us = 0;
  std::uint64_t peak_rss_bytes = 0;  // maximum of any worker since the start
  // Gauges of living workers:
  std::uint64_t connections = 0, in_flight = 0, detached = 0, spooled_bytes = 0, background_queued = 0,
                rss_bytes = 0, item_cache_bytes = 0;
  std::int64_t model_trained_at = 0;    // the oldest in use; 0: none
  std::int64_t index_documents = -1;    // −1: no worker can search the index
  std::uint64_t background_age_ms = 0;  // maximum over the workers
  std::uint32_t max_in_flight = 0;      // maximum of any worker since the start
  std::uint32_t workers = 0, ready = 0, redis_ready = 0, index_ready = 0, model_ready = 0;
  std::array<std::uint32_t, 3> breakers{};  // workers by redis::BreakerState
};

// Availability of dependencies in a worker. For the pool: in at least one worker.
struct DependencyState {
  bool redis = false, index = false, model = false;
};
inline DependencyState dependency_state(const Totals& totals) {
  return {totals.redis_ready > 0, totals.index_ready > 0, totals.model_ready > 0};
}
// Missing dependencies, in the order of Dependency.
std::vector<Dependency> missing_dependencies(const DependencyState& state, const RedisSample& store);

// Keeps the counters of dead workers, so totals never decrease.
class Scoreboard {
 public:
  // Maps shared memory for `slots` workers; children forked later share it. Throws
  // std::system_error.
  explicit Scoreboard(std::size_t slots);
  ~Scoreboard();
  Scoreboard(const Scoreboard&) = delete;
  Scoreboard& operator=(const Scoreboard&) = delete;

  std::span<WorkerSlot> slots();
  PoolCounters& pool();
  HelperSlot& recorder();
  HelperSlot& status();
  HelperSlot& model_publisher();
  RecorderReport& recorder_report();  // written by the recorder
  RedisSample& redis_sample();
  PoolHistory& history();  // written by the status process
  // Name of a route table row, "GET /api/hot"; empty: no such row. Set by the master.
  void set_route_name(std::size_t row, std::string_view name);
  std::string route_name(std::size_t row) const;
  // Current activity of the worker's loop: "rank GET /api/recommendations", "idle".
  std::string phase_text(const WorkerSlot& slot) const;
  // Master only: saves a dead worker's counters and clears its slot.
  void retire(WorkerSlot& slot);
  // Callable from any process. Counters never decrease between calls, even while the master retires
  // a slot. O(slots).
  Totals totals() const;

 private:
  struct Memory;
  Memory* memory_;
  std::size_t slot_count_;
};

}  // namespace freshet
