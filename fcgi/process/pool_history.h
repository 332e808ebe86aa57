// The last five minutes of the pool in the scoreboard's shared memory, one sample every three
// seconds. The status process writes the ring; it outlives that process, which a reload replaces.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "core/base/histogram.h"
#include "fcgi/process/worker_slot.h"

namespace freshet {

class Scoreboard;

inline constexpr std::chrono::seconds kHistorySpan{300};
inline constexpr std::chrono::seconds kHistoryInterval{3};
// The window over which rates and percentiles are computed.
inline constexpr std::chrono::seconds kHistoryRateWindow{9};

// Counters since the master's start, and gauges.
struct PoolSample {
  std::int64_t at_ms = 0;  // CLOCK_MONOTONIC
  std::uint64_t requests = 0, client_errors = 0, server_errors = 0;
  std::array<std::uint64_t, kDurationBuckets> latency{}, redis_latency{};
  std::uint64_t redis_errors = 0, list_hits = 0, list_misses = 0, item_cache_hits = 0, item_cache_misses = 0;
  std::uint64_t feed_pages = 0, feed_pages_degraded = 0;
  // Gauges:
  std::uint64_t idle = 0, active = 0, redis_bytes = 0, queued_writes = 0, recorder_lag = 0;
};
PoolSample sample_pool(Scoreboard& board, std::chrono::milliseconds now);

class PoolHistory {
 public:
  // One writer at a time. Drops a sample that comes less than half an interval after the last one,
  // so that a status process that keeps restarting does not overwrite the history.
  void add(const PoolSample& sample);
  // Oldest first: what is needed to show kHistorySpan, less if the pool is younger. Callable from
  // any process.
  std::vector<PoolSample> samples() const;

 private:
  // One slot is written while the others are read.
  static constexpr std::size_t kMaxSamples = (kHistorySpan + kHistoryRateWindow) / kHistoryInterval + 1;
  std::array<DoubleBuffered<PoolSample>, kMaxSamples + 1> ring_;
  std::atomic<std::uint64_t> added_{0};
};

}  // namespace freshet
