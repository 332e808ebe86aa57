#include "fcgi/process/scoreboard.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>

namespace freshet {

struct Scoreboard::Memory {
  PoolCounters pool;
  // Odd while the master moves a slot's counters into `retired`, so that a reader does not count them twice
  // or not at all.
  std::atomic<std::uint32_t> folding{0};
  WorkerSlot retired;
  CompanionSlot recorder, status;
  RecorderReport recorder_report;
};

namespace {

struct Counter {
  std::atomic<std::uint64_t> WorkerSlot::*slot;
  std::uint64_t Totals::*total;
};
constexpr std::array kCounters{
    Counter{&WorkerSlot::accepted, &Totals::accepted},
    Counter{&WorkerSlot::requests, &Totals::requests},
    Counter{&WorkerSlot::redis_commands, &Totals::redis_commands},
    Counter{&WorkerSlot::redis_round_trips, &Totals::redis_round_trips},
    Counter{&WorkerSlot::redis_errors, &Totals::redis_errors},
    Counter{&WorkerSlot::redis_reconnects, &Totals::redis_reconnects},
    Counter{&WorkerSlot::background_queued, &Totals::background_queued},
    Counter{&WorkerSlot::background_done, &Totals::background_done},
    Counter{&WorkerSlot::background_dropped, &Totals::background_dropped},
    Counter{&WorkerSlot::spooled, &Totals::spooled},
    Counter{&WorkerSlot::replayed, &Totals::replayed},
    Counter{&WorkerSlot::queued_writes, &Totals::queued_writes},
};

constexpr std::array<std::string_view, static_cast<std::size_t>(Refusal::kCount)> kRefusalNames{
    "bot",        "bad_json",     "bad_member", "too_large",      "not_found",    "method",
    "forbidden",  "unauthorised", "denied",     "foreign_origin", "rate_limited", "over_limit",
    "redis_away", "spool_full",   "deadline",   "protocol",       "read_timeout", "write_timeout"};

constexpr auto kRelaxed = std::memory_order_relaxed;

// Only the master writes a dead worker's slot and `retired`, so load and store need not be one step.
template <class Number>
void move_into(std::atomic<Number>& from, std::atomic<Number>& to) {
  to.store(to.load(kRelaxed) + from.load(kRelaxed), kRelaxed);
  from.store(0, kRelaxed);
}

void add_counters(const WorkerSlot& slot, Totals& totals) {
  for (const Counter& row : kCounters) totals.*row.total += (slot.*row.slot).load(kRelaxed);
  for (std::size_t i = 0; i < totals.refused.size(); ++i) totals.refused[i] += slot.refused[i].load(kRelaxed);
  totals.max_in_flight = std::max(totals.max_in_flight, slot.max_in_flight.load(kRelaxed));
}

void add_living(const WorkerSlot& slot, Totals& totals) {
  const auto state = slot.state.load(kRelaxed);
  if (state == WorkerState::kEmpty) return;
  ++totals.workers;
  if (state == WorkerState::kReady) ++totals.ready;
  totals.redis_ready += slot.redis_ready.load(kRelaxed);
  totals.connections += slot.connections.load(kRelaxed);
  totals.in_flight += slot.in_flight.load(kRelaxed);
  totals.spooled_bytes += slot.spooled_bytes.load(kRelaxed);
  totals.background_age_ms = std::max(totals.background_age_ms, slot.background_age_ms.load(kRelaxed));
}

}  // namespace

bool is_idle(const WorkerSlot& slot) {
  return slot.state.load(kRelaxed) == WorkerState::kReady && slot.in_flight.load(kRelaxed) == 0;
}
bool is_busy(const WorkerSlot& slot) {
  return slot.state.load(kRelaxed) == WorkerState::kReady && slot.in_flight.load(kRelaxed) != 0;
}

std::string_view refusal_name(Refusal reason) { return kRefusalNames[static_cast<std::size_t>(reason)]; }

namespace {
// The slots follow the head in one mapping; sizeof a cache-aligned type is a multiple of the line.
template <class Head>
std::size_t bytes_for(std::size_t slots) {
  static_assert(sizeof(Head) % alignof(WorkerSlot) == 0);
  return sizeof(Head) + slots * sizeof(WorkerSlot);
}
}  // namespace

Scoreboard::Scoreboard(std::size_t slots) : memory_(nullptr), slots_(slots) {
  void* at =
      mmap(nullptr, bytes_for<Memory>(slots), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "scoreboard");
  memory_ = new (at) Memory;
  auto* first = reinterpret_cast<std::byte*>(memory_ + 1);
  for (std::size_t i = 0; i < slots; ++i) new (first + i * sizeof(WorkerSlot)) WorkerSlot;
}

Scoreboard::~Scoreboard() { munmap(memory_, bytes_for<Memory>(slots_)); }

std::span<WorkerSlot> Scoreboard::slots() {
  return {std::launder(reinterpret_cast<WorkerSlot*>(memory_ + 1)), slots_};
}
WorkerSlot& Scoreboard::retired() { return memory_->retired; }
PoolCounters& Scoreboard::pool() { return memory_->pool; }
CompanionSlot& Scoreboard::recorder() { return memory_->recorder; }
CompanionSlot& Scoreboard::status() { return memory_->status; }
RecorderReport& Scoreboard::recorder_report() { return memory_->recorder_report; }

void Scoreboard::retire(WorkerSlot& slot) {
  WorkerSlot& retired = memory_->retired;
  memory_->folding.fetch_add(1, std::memory_order_acq_rel);
  for (const Counter& row : kCounters) move_into(slot.*row.slot, retired.*row.slot);
  for (std::size_t i = 0; i < slot.refused.size(); ++i) move_into(slot.refused[i], retired.refused[i]);
  retired.max_in_flight.store(
      std::max(retired.max_in_flight.load(kRelaxed), slot.max_in_flight.load(kRelaxed)), kRelaxed);
  slot.state.store(WorkerState::kEmpty, kRelaxed);
  for (auto* gauge :
       {&slot.connections, &slot.in_flight, &slot.max_in_flight, &slot.redis_ready, &slot.generation})
    gauge->store(0, kRelaxed);
  slot.spooled_bytes.store(0, kRelaxed);
  slot.background_age_ms.store(0, kRelaxed);
  slot.pid.store(0, kRelaxed);
  slot.started_at.store(0, kRelaxed);
  slot.last_turn_ms.store(0, kRelaxed);
  memory_->folding.fetch_add(1, std::memory_order_release);
}

Totals Scoreboard::totals() const {
  const auto* first = std::launder(reinterpret_cast<const WorkerSlot*>(memory_ + 1));
  Totals totals;
  // Bounded: a master that was killed between the two steps leaves the number odd for ever, and its workers
  // end soon.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto before = memory_->folding.load(std::memory_order_acquire);
    totals = Totals();
    add_counters(memory_->retired, totals);
    for (std::size_t i = 0; i < slots_; ++i) {
      add_counters(first[i], totals);
      add_living(first[i], totals);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && memory_->folding.load(kRelaxed) == before) break;
  }
  return totals;
}

}  // namespace freshet
