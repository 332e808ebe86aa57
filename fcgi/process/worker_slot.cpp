#include "fcgi/process/worker_slot.h"

#include <algorithm>

namespace freshet {
namespace {

constexpr std::array<std::string_view, static_cast<std::size_t>(Refusal::kCount)> kRefusalNames{
    "bot",          "bad_json",          "bad_member",      "too_large",        "not_found",
    "method",       "forbidden",         "unauthorised",    "denied",           "foreign_origin",
    "rate_limited", "network_limited",   "service_limited", "unverified_quota", "page_view_quota",
    "over_limit",   "redis_unavailable", "spool_full",      "deadline",         "protocol",
    "read_timeout", "write_timeout"};

// One process writes, so load and store need not be atomic together.
void increment(std::atomic<std::uint64_t>& counter, std::uint64_t amount) {
  counter.store(counter.load(kRelaxed) + amount, kRelaxed);
}

}  // namespace

std::string_view refusal_name(Refusal reason) { return kRefusalNames[static_cast<std::size_t>(reason)]; }

void SharedHistogram::add(std::chrono::microseconds duration) {
  increment(counts[duration_bucket(duration)], 1);
  increment(sum_us, static_cast<std::uint64_t>(std::max<std::int64_t>(0, duration.count())));
}

void SharedHistogram::store(const Histogram& histogram) {
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i].store(histogram.counts[i], kRelaxed);
  sum_us.store(histogram.sum_us, kRelaxed);
}

bool is_idle(const WorkerSlot& slot) {
  return slot.state.load(kRelaxed) == WorkerState::kReady && slot.in_flight.load(kRelaxed) == 0;
}
bool is_busy(const WorkerSlot& slot) {
  return slot.state.load(kRelaxed) == WorkerState::kReady && slot.in_flight.load(kRelaxed) != 0;
}

}  // namespace freshet
