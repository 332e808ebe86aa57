// The scoreboard: one slot a worker in memory shared by the master and all workers. Each slot is
// written by its own worker only (the master resets it when the worker is replaced), with relaxed
// atomics, so a reader may see a moment's skew and never a torn number. Totals are sums over slots;
// nothing is incremented by one process and decremented by another.
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
  std::atomic<std::int64_t> reloaded_at{0};  // the last time that a reload succeeded; 0: none did
  std::atomic<std::uint32_t> generation{0};
  std::atomic<std::uint32_t> reloads{0}, failed_reloads{0}, respawns{0};
  // Written by the master once a second (scaling.h), as PHP-FPM counts them:
  std::atomic<std::uint32_t> max_active{0};            // the most workers that were busy at once
  std::atomic<std::uint32_t> max_children_reached{0};  // so often none was idle and no more were allowed
  std::atomic<std::uint32_t> emergency_restarts{0};    // new generations after deaths by a signal
  // Connections that wait to be accepted, as far as a worker can see it (fcgi/worker_report.h),
  // twice a second:
  std::atomic<std::uint32_t> listen_queue{0}, max_listen_queue{0};
};

// A child beside the workers, as the master knows it (companion.h).
struct HelperSlot {
  std::atomic<bool> enabled{false};
  std::atomic<pid_t> pid{0};  // 0: none lives
  std::atomic<std::int64_t> started_at{0};
  std::atomic<std::uint32_t> respawns{0};
};

// What only Redis knows, asked by one worker for all (fcgi/redis_sampler.h): its sizes every
// kSampleIntervalMs, how it is, a loss and its memory, every kHealthIntervalMs.
inline constexpr std::int64_t kKeyStatsIntervalMs = 10'000;
inline constexpr std::int64_t kHealthIntervalMs = 1'000;
struct RedisKeyStats {
  std::int64_t sampled_at = 0;  // unix seconds; 0: never yet
  std::int64_t hot_rank = 0, hot_score = 0, hot_published = 0, hot_hidden = 0, hot_newest = 0;  // members
  std::int64_t stream_entries = 0;
  double stream_fill = 0;  // the fullest group's entries by what that group may have
  std::int64_t seen_bytes = 0, seen_impressions_today = 0;
  double seen_fill_today = 0, seen_false_positive_rate = 0;
  std::array<char, 16> seen_filter{};  // as in seen.filter
};
using RecorderOwner = std::array<char, 96>;  // "HOST, pid 7"; cut when it is longer
struct RedisSample {
  std::atomic<std::int64_t> key_stats_claimed_ms{0};         // CLOCK_MONOTONIC: somebody asks, or asked then
  DoubleBuffered<RedisKeyStats> key_stats;                    // written by whoever claimed it
  std::atomic<std::int64_t> health_claimed_ms{0};  // likewise, every kHealthIntervalMs
  std::atomic<std::int64_t> clock_offset_us{0};    // as agreed_offset(); 0: nobody knows yet
  std::atomic<std::int64_t> data_lost_since{0};         // unix seconds: Redis lost its items; 0: it has them
  DoubleBuffered<redis::MemoryLevel> memory;
  DoubleBuffered<RecorderOwner> recorder_owner;  // who records, on whatever host, or did last
  std::atomic<bool> memory_full{false};           // as MemoryLevel::full, for every request
};

struct HistogramTotals {
  std::array<std::uint64_t, kDurationBuckets> counts{};
  std::uint64_t sum_us = 0;
  std::uint64_t count() const;
  // The bound (µs) that this share of all durations does not exceed; 0 when there are none, the
  // last bound when it is beyond.
  std::int64_t quantile_us(double quantile) const;
};
struct RouteTotals {
  HistogramTotals latency;
  std::array<std::uint64_t, 5> status{};
};

// Sums over all slots, dead workers included.
struct Totals {
  std::uint64_t accepted = 0, requests = 0, slow_requests = 0, over_budget = 0;
  std::uint64_t list_hits = 0, list_misses = 0, item_cache_hits = 0, item_cache_misses = 0, feed_impressions = 0,
                invalidations_ignored = 0;
  std::uint64_t feed_pages = 0, feed_pages_degraded = 0;
  std::uint64_t redis_commands = 0, redis_round_trips = 0, redis_errors = 0, redis_reconnects = 0;
  std::uint64_t background_done = 0, background_dropped = 0, spooled = 0, replayed = 0, queued_writes = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(Refusal::kCount)> refused{};
  std::array<std::uint64_t, redis::kErrorClasses> redis_errors_by_class{};
  HistogramTotals redis_latency, loop_iterations;
  std::array<RouteTotals, kMaxRoutes> routes{};
  std::uint64_t cpu_us = 0;
  std::uint64_t peak_rss_bytes = 0;  // of any one worker, ever
  // Of the living workers, this moment:
  std::uint64_t connections = 0, in_flight = 0, detached = 0, spooled_bytes = 0, background_queued = 0,
                rss_bytes = 0, item_cache_bytes = 0;
  std::int64_t model_trained_at = 0;    // the oldest in use; 0: none
  std::int64_t index_documents = -1;    // of the index; -1: no worker can search it
  std::uint64_t background_age_ms = 0;  // the greatest
  std::uint32_t max_in_flight = 0;      // of any one worker, ever
  std::uint32_t workers = 0, ready = 0, redis_ready = 0, index_ready = 0, model_ready = 0;
  std::array<std::uint32_t, 3> breakers{};  // workers by redis::BreakerState
};

// What a worker has by itself; of the pool: what some worker has.
struct DependencyState {
  bool redis = false, index = false, model = false;
};
inline DependencyState dependency_state(const Totals& totals) {
  return {totals.redis_ready > 0, totals.index_ready > 0, totals.model_ready > 0};
}
// What is missing, in the order of Need.
std::vector<Dependency> missing_dependencies(const DependencyState& state, const RedisSample& store);

// The master keeps the counters of dead workers, so totals never go back.
class Scoreboard {
 public:
  // Maps memory for `slots` workers, shared with children forked later. Throws std::system_error.
  explicit Scoreboard(std::size_t slots);
  ~Scoreboard();
  Scoreboard(const Scoreboard&) = delete;
  Scoreboard& operator=(const Scoreboard&) = delete;

  std::span<WorkerSlot> slots();
  PoolCounters& pool();
  HelperSlot& recorder();
  HelperSlot& status();
  HelperSlot& model_publisher();
  RecorderReport& recorder_report();  // written by the recorder itself
  RedisSample& redis_sample();
  PoolHistory& history();  // written by the status process
  // What stands at a row of the route table, "GET /api/hot"; empty: no such row. Named by the
  // master.
  void set_route_name(std::size_t row, std::string_view name);
  std::string route_name(std::size_t row) const;
  // What a worker's loop is at: "rank GET /api/recommendations", "idle".
  std::string phase_text(const WorkerSlot& slot) const;
  // Master only: keeps a dead worker's counters and empties its slot.
  void retire(WorkerSlot& slot);
  // Any process. Counters never go back from one call to the next, also while the master retires a
  // slot. O(slots).
  Totals totals() const;

 private:
  struct Memory;
  Memory* memory_;
  std::size_t slot_count_;
};

}  // namespace freshet
