// The last five minutes of the pool, a sample each three seconds, in the scoreboard's memory: a
// ring that the status process writes, so it outlives a reload, which replaces that process.
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
// What a rate or a percentile of a sample is of.
inline constexpr std::chrono::seconds kHistoryRateWindow{9};

// Counters since the master's start, and levels of that moment.
struct PoolSample {
  std::int64_t at_ms = 0;  // CLOCK_MONOTONIC
  std::uint64_t requests = 0, client_errors = 0, server_errors = 0;
  std::array<std::uint64_t, kDurationBuckets> latency{}, redis_latency{};
  std::uint64_t redis_errors = 0, list_hits = 0, list_misses = 0, item_cache_hits = 0, item_cache_misses = 0;
  std::uint64_t feed_pages = 0, feed_pages_degraded = 0;
  // Levels:
  std::uint64_t idle = 0, active = 0, redis_bytes = 0, queued_writes = 0, recorder_lag = 0;
};
PoolSample sample_pool(Scoreboard& board, std::chrono::milliseconds now);

class PoolHistory {
 public:
  // By one process at a time. One that comes sooner than half a step after the last is left out:
  // a status process that dies again and again does not drive out what there was.
  void add(const PoolSample& sample);
  // Oldest first; what is needed for kHistorySpan, or less of a young pool. Any process.
  std::vector<PoolSample> samples() const;

 private:
  // One is being written while the others are read.
  static constexpr std::size_t kMaxSamples = (kHistorySpan + kHistoryRateWindow) / kHistoryInterval + 1;
  std::array<DoubleBuffered<PoolSample>, kMaxSamples + 1> ring_;
  std::atomic<std::uint64_t> added_{0};
};

}  // namespace freshet
