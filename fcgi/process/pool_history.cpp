#include "fcgi/process/pool_history.h"

#include <algorithm>

#include "fcgi/process/scoreboard.h"

namespace freshet {

PoolSample sample_pool(Scoreboard& board, std::chrono::milliseconds now) {
  const Totals totals = board.totals();
  PoolSample sample;
  sample.at_ms = now.count();
  for (const RouteTotals& route : totals.routes) {
    for (std::size_t i = 0; i < kDurationBuckets; ++i) sample.latency[i] += route.latency.counts[i];
    sample.client_errors += route.status[3];
    sample.server_errors += route.status[4];
  }
  sample.requests = totals.requests;
  sample.redis_latency = totals.redis_latency.counts;
  sample.redis_errors = totals.redis_errors;
  sample.list_hits = totals.list_hits;
  sample.list_misses = totals.list_misses;
  sample.item_cache_hits = totals.item_cache_hits;
  sample.item_cache_misses = totals.item_cache_misses;
  sample.feed_pages = totals.feed_pages;
  sample.feed_pages_degraded = totals.feed_pages_degraded;
  sample.idle = static_cast<std::uint64_t>(std::ranges::count_if(board.slots(), is_idle));
  sample.active = totals.workers - std::min<std::uint64_t>(totals.workers, sample.idle);
  sample.redis_bytes = static_cast<std::uint64_t>(board.redis_sample().memory.load().used);
  // The two counters are not read at the same moment.
  sample.queued_writes = totals.queued_writes - std::min(totals.queued_writes, totals.replayed);
  sample.recorder_lag = board.recorder_report().lag_entries.load(kRelaxed);
  return sample;
}

void PoolHistory::add(const PoolSample& sample) {
  const std::uint64_t added = added_.load(kRelaxed);
  constexpr auto kMinSpacing = std::chrono::milliseconds(kHistoryInterval) / 2;
  if (added > 0 && sample.at_ms - ring_[(added - 1) % ring_.size()].load().at_ms < kMinSpacing.count())
    return;
  ring_[added % ring_.size()].store(sample);
  added_.store(added + 1, std::memory_order_release);
}

std::vector<PoolSample> PoolHistory::samples() const {
  const std::uint64_t added = added_.load(std::memory_order_acquire);
  std::vector<PoolSample> found;
  for (std::uint64_t i = added - std::min<std::uint64_t>(added, kMaxSamples); i < added; ++i) {
    const PoolSample sample = ring_[i % ring_.size()].load();
    // If the reader was suspended for minutes, newer samples have overwritten older ones.
    if (found.empty() || sample.at_ms > found.back().at_ms) found.push_back(sample);
  }
  return found;
}

}  // namespace freshet
