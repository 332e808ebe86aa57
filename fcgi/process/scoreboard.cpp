#include "fcgi/process/scoreboard.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <numeric>
#include <system_error>
#include <type_traits>

namespace freshet {

struct Scoreboard::Memory {
  PoolCounters pool;
  // Sequence lock: odd while the master moves a slot's counters into `retired`, so that a reader
  // neither misses them nor counts them twice.
  std::atomic<std::uint32_t> retire_sequence{0};
  WorkerSlot retired;
  HelperSlot recorder, status, model_publisher;
  RecorderReport recorder_report;
  RedisSample redis_sample;
  PoolHistory history;
  std::array<std::array<char, 64>, kMaxRoutes> route_names{};
};

namespace {

struct Counter {
  std::atomic<std::uint64_t> WorkerSlot::*slot;
  std::uint64_t Totals::*total;
};
constexpr std::array kCounters{
    Counter{&WorkerSlot::accepted, &Totals::accepted},
    Counter{&WorkerSlot::requests, &Totals::requests},
    Counter{&WorkerSlot::slow_requests, &Totals::slow_requests},
    Counter{&WorkerSlot::over_budget, &Totals::over_budget},
    Counter{&WorkerSlot::list_hits, &Totals::list_hits},
    Counter{&WorkerSlot::list_misses, &Totals::list_misses},
    Counter{&WorkerSlot::item_cache_hits, &Totals::item_cache_hits},
    Counter{&WorkerSlot::item_cache_misses, &Totals::item_cache_misses},
    Counter{&WorkerSlot::feed_impressions, &Totals::feed_impressions},
    Counter{&WorkerSlot::views_of_tracked, &Totals::views_of_tracked},
    Counter{&WorkerSlot::feed_pages, &Totals::feed_pages},
    Counter{&WorkerSlot::feed_pages_degraded, &Totals::feed_pages_degraded},
    Counter{&WorkerSlot::invalidations_ignored, &Totals::invalidations_ignored},
    Counter{&WorkerSlot::cpu_us, &Totals::cpu_us},
    Counter{&WorkerSlot::redis_commands, &Totals::redis_commands},
    Counter{&WorkerSlot::redis_round_trips, &Totals::redis_round_trips},
    Counter{&WorkerSlot::redis_errors, &Totals::redis_errors},
    Counter{&WorkerSlot::redis_reconnects, &Totals::redis_reconnects},
    Counter{&WorkerSlot::background_done, &Totals::background_done},
    Counter{&WorkerSlot::background_dropped, &Totals::background_dropped},
    Counter{&WorkerSlot::spooled, &Totals::spooled},
    Counter{&WorkerSlot::replayed, &Totals::replayed},
    Counter{&WorkerSlot::queued_writes, &Totals::queued_writes},
};

// Only the master writes a dead worker's slot and `retired`, so load and store need not be atomic
// together.
template <class Number>
void move_into(std::atomic<Number>& from, std::atomic<Number>& to) {
  to.store(to.load(kRelaxed) + from.load(kRelaxed), kRelaxed);
  from.store(0, kRelaxed);
}

void move_into(SharedHistogram& from, SharedHistogram& to) {
  for (std::size_t i = 0; i < from.counts.size(); ++i) move_into(from.counts[i], to.counts[i]);
  move_into(from.sum_us, to.sum_us);
}

void add(const SharedHistogram& from, HistogramTotals& to) {
  for (std::size_t i = 0; i < from.counts.size(); ++i) to.counts[i] += from.counts[i].load(kRelaxed);
  to.sum_us += from.sum_us.load(kRelaxed);
}

// Ten kilobytes per slot, so only for slots that have or had a worker.
void add_histograms(const WorkerSlot& slot, Totals& totals) {
  add(slot.redis_latency, totals.redis_latency);
  add(slot.loop_iterations, totals.loop_iterations);
  for (std::size_t row = 0; row < kMaxRoutes; ++row) {
    const RouteCounters& route = slot.routes[row];
    add(route.latency, totals.routes[row].latency);
    for (std::size_t i = 0; i < route.status.size(); ++i)
      totals.routes[row].status[i] += route.status[i].load(kRelaxed);
  }
}

void move_histograms(WorkerSlot& slot, WorkerSlot& retired) {
  move_into(slot.redis_latency, retired.redis_latency);
  move_into(slot.loop_iterations, retired.loop_iterations);
  for (std::size_t row = 0; row < kMaxRoutes; ++row) {
    move_into(slot.routes[row].latency, retired.routes[row].latency);
    for (std::size_t i = 0; i < slot.routes[row].status.size(); ++i)
      move_into(slot.routes[row].status[i], retired.routes[row].status[i]);
  }
}

template <class Number>
void store_max(const std::atomic<Number>& from, std::atomic<Number>& to) {
  to.store(std::max(to.load(kRelaxed), from.load(kRelaxed)), kRelaxed);
}

void add_counters(const WorkerSlot& slot, Totals& totals) {
  for (const Counter& row : kCounters) totals.*row.total += (slot.*row.slot).load(kRelaxed);
  for (std::size_t i = 0; i < totals.refused.size(); ++i) totals.refused[i] += slot.refused[i].load(kRelaxed);
  for (std::size_t i = 0; i < totals.redis_errors_by_class.size(); ++i)
    totals.redis_errors_by_class[i] += slot.redis_errors_by_class[i].load(kRelaxed);
  totals.max_in_flight = std::max(totals.max_in_flight, slot.max_in_flight.load(kRelaxed));
  totals.peak_rss_bytes = std::max(totals.peak_rss_bytes, slot.peak_rss_bytes.load(kRelaxed));
}

void add_gauges(const WorkerSlot& slot, Totals& totals) {
  ++totals.workers;
  if (slot.state.load(kRelaxed) == WorkerState::kReady) ++totals.ready;
  totals.redis_ready += slot.redis_ready.load(kRelaxed);
  ++totals.breakers[std::min<std::size_t>(slot.redis_breaker.load(kRelaxed), totals.breakers.size() - 1)];
  totals.connections += slot.connections.load(kRelaxed);
  totals.in_flight += slot.in_flight.load(kRelaxed);
  totals.detached += slot.detached.load(kRelaxed);
  totals.rss_bytes += slot.rss_bytes.load(kRelaxed);
  totals.item_cache_bytes += slot.item_cache_bytes.load(kRelaxed);
  totals.spooled_bytes += slot.spooled_bytes.load(kRelaxed);
  totals.background_queued += slot.background_queued.load(kRelaxed);
  const auto documents = static_cast<std::int64_t>(slot.index_documents_plus_one.load(kRelaxed)) - 1;
  totals.index_documents = std::max(totals.index_documents, documents);
  if (documents >= 0) ++totals.index_ready;
  const std::int64_t trained = slot.model_trained_at.load(kRelaxed);
  if (trained != 0) ++totals.model_ready;
  if (trained != 0 && (totals.model_trained_at == 0 || trained < totals.model_trained_at))
    totals.model_trained_at = trained;
  totals.background_age_ms = std::max(totals.background_age_ms, slot.background_age_ms.load(kRelaxed));
}

}  // namespace

namespace {
// The slots follow the header in one mapping; sizeof a cache-aligned type is a multiple of the
// line.
template <class Head>
std::size_t bytes_for(std::size_t slots) {
  static_assert(sizeof(Head) % alignof(WorkerSlot) == 0);
  return sizeof(Head) + slots * sizeof(WorkerSlot);
}
}  // namespace

Scoreboard::Scoreboard(std::size_t slots) : memory_(nullptr), slot_count_(slots) {
  void* mapping =
      mmap(nullptr, bytes_for<Memory>(slots), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "scoreboard");
  memory_ = new (mapping) Memory;
  // The slots are not constructed: fresh pages are zero, like an empty slot, and use no memory.
  static_assert(std::is_trivially_destructible_v<WorkerSlot>);
}

Scoreboard::~Scoreboard() { munmap(memory_, bytes_for<Memory>(slot_count_)); }

std::span<WorkerSlot> Scoreboard::slots() {
  return {std::launder(reinterpret_cast<WorkerSlot*>(memory_ + 1)), slot_count_};
}
PoolCounters& Scoreboard::pool() { return memory_->pool; }
HelperSlot& Scoreboard::recorder() { return memory_->recorder; }
HelperSlot& Scoreboard::status() { return memory_->status; }
HelperSlot& Scoreboard::model_publisher() { return memory_->model_publisher; }
RecorderReport& Scoreboard::recorder_report() { return memory_->recorder_report; }
RedisSample& Scoreboard::redis_sample() { return memory_->redis_sample; }
PoolHistory& Scoreboard::history() { return memory_->history; }

void Scoreboard::set_route_name(std::size_t row, std::string_view name) {
  if (row >= kMaxRoutes) return;
  auto& stored = memory_->route_names[row];
  stored.fill('\0');
  std::ranges::copy(name.substr(0, stored.size() - 1), stored.begin());
}

std::string Scoreboard::route_name(std::size_t row) const {
  return row < kMaxRoutes ? std::string(memory_->route_names[row].data()) : std::string();
}

std::string Scoreboard::phase_text(const WorkerSlot& slot) const {
  const PackedPhase phase = slot.phase.load(kRelaxed);
  std::string text(kRequestPhaseNames[static_cast<std::size_t>(phase_of(phase))]);
  if (route_of(phase) != 0) text.append(" ").append(route_name(route_of(phase)));
  return text;
}

std::uint64_t HistogramTotals::count() const {
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

std::int64_t HistogramTotals::quantile_us(double quantile) const {
  const double target = quantile * static_cast<double>(count());
  if (target <= 0) return 0;
  double cumulative = 0;
  for (std::size_t i = 0; i < kDurationBounds.size(); ++i) {
    cumulative += static_cast<double>(counts[i]);
    if (cumulative >= target) return kDurationBounds[i];
  }
  return kDurationBounds.back();
}

void Scoreboard::retire(WorkerSlot& slot) {
  WorkerSlot& retired = memory_->retired;
  memory_->retire_sequence.fetch_add(1, std::memory_order_acq_rel);
  for (const Counter& row : kCounters) move_into(slot.*row.slot, retired.*row.slot);
  for (std::size_t i = 0; i < slot.refused.size(); ++i) move_into(slot.refused[i], retired.refused[i]);
  for (std::size_t i = 0; i < slot.redis_errors_by_class.size(); ++i)
    move_into(slot.redis_errors_by_class[i], retired.redis_errors_by_class[i]);
  move_histograms(slot, retired);
  store_max(slot.max_in_flight, retired.max_in_flight);
  store_max(slot.peak_rss_bytes, retired.peak_rss_bytes);
  slot.state.store(WorkerState::kEmpty, kRelaxed);
  for (auto* gauge :
       {&slot.connections, &slot.in_flight, &slot.detached, &slot.max_in_flight, &slot.redis_ready,
        &slot.redis_breaker, &slot.generation, &slot.phase, &slot.cpu_permille})
    gauge->store(0, kRelaxed);
  for (auto* gauge : {&slot.background_queued, &slot.spooled_bytes, &slot.background_age_ms, &slot.rss_bytes,
                      &slot.item_cache_bytes, &slot.peak_rss_bytes})
    gauge->store(0, kRelaxed);
  slot.model_trained_at.store(0, kRelaxed);
  slot.index_documents_plus_one.store(0, kRelaxed);
  slot.request.store({});
  slot.pid.store(0, kRelaxed);
  slot.started_at.store(0, kRelaxed);
  slot.last_iteration_ms.store(0, kRelaxed);
  memory_->retire_sequence.fetch_add(1, std::memory_order_release);
}

std::vector<Dependency> missing_dependencies(const DependencyState& state, const RedisSample& store) {
  std::vector<Dependency> out;
  if (!state.redis) out.push_back(Dependency::kRedis);
  if (store.data_lost_since.load(kRelaxed) != 0) out.push_back(Dependency::kItems);
  if (!state.index) out.push_back(Dependency::kIndex);
  if (!state.model) out.push_back(Dependency::kModel);
  if (store.memory_full.load(kRelaxed)) out.push_back(Dependency::kWrites);
  return out;
}

Totals Scoreboard::totals() const {
  const auto* first = std::launder(reinterpret_cast<const WorkerSlot*>(memory_ + 1));
  Totals totals;
  // Bounded: a master killed between the two steps leaves the sequence odd forever. Its workers end
  // soon after.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto sequence = memory_->retire_sequence.load(std::memory_order_acquire);
    totals = Totals();
    add_counters(memory_->retired, totals);
    add_histograms(memory_->retired, totals);
    for (std::size_t i = 0; i < slot_count_; ++i) {
      add_counters(first[i], totals);
      if (first[i].state.load(kRelaxed) == WorkerState::kEmpty) continue;
      add_histograms(first[i], totals);
      add_gauges(first[i], totals);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (sequence % 2 == 0 && memory_->retire_sequence.load(kRelaxed) == sequence) break;
  }
  return totals;
}

}  // namespace freshet
