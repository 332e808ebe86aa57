#include "fcgi/handlers/status_history.h"

#include <cmath>
#include <optional>
#include <string_view>

namespace freshet::handlers {
namespace {

// A sample and the earlier one that it is compared with: the oldest within kHistoryRate.
struct SampleInterval {
  const PoolSample& before;
  const PoolSample& now;
};
using Value = std::optional<double>;
using Member = std::uint64_t PoolSample::*;

double increase(const SampleInterval& interval, Member member) {
  return static_cast<double>(interval.now.*member - interval.before.*member);
}

template <Member kMember>
Value rate_per_second(const SampleInterval& interval) {
  return 1000 * increase(interval, kMember) / static_cast<double>(interval.now.at_ms - interval.before.at_ms);
}

template <Member kPart, Member kRest>
Value percent_of_sum(const SampleInterval& interval) {
  const double part = increase(interval, kPart), both = part + increase(interval, kRest);
  return both > 0 ? Value(100 * part / both) : std::nullopt;
}

Value percent_degraded(const SampleInterval& interval) {
  const double pages = increase(interval, &PoolSample::feed_pages);
  return pages > 0 ? Value(100 * increase(interval, &PoolSample::feed_pages_degraded) / pages) : std::nullopt;
}

// In ms; interpolates linearly within a bucket, as Prometheus' histogram_quantile does.
template <auto kMember, int kPercent>
Value quantile_ms(const SampleInterval& interval) {
  const auto& before = interval.before.*kMember;
  const auto& after = interval.now.*kMember;
  double total = 0;
  for (std::size_t i = 0; i < kDurationBuckets; ++i) total += static_cast<double>(after[i] - before[i]);
  if (total <= 0) return std::nullopt;
  double rank = total * kPercent / 100, low = 0;
  for (std::size_t i = 0; i < kDurationBounds.size(); ++i) {
    const auto bound = static_cast<double>(kDurationBounds[i]) / 1000;
    const auto count = static_cast<double>(after[i] - before[i]);
    if (count >= rank) return low + (bound - low) * rank / std::max(count, 1e-9);
    rank -= count;
    low = bound;
  }
  return low;
}

struct RateColumn {
  std::string_view name;
  Value (*compute)(const SampleInterval&);
};
constexpr std::array kRates{
    RateColumn{"requests", rate_per_second<&PoolSample::requests>},
    RateColumn{"p50 ms", quantile_ms<&PoolSample::latency, 50>},
    RateColumn{"p99 ms", quantile_ms<&PoolSample::latency, 99>},
    RateColumn{"4xx", rate_per_second<&PoolSample::client_errors>},
    RateColumn{"5xx", rate_per_second<&PoolSample::server_errors>},
    RateColumn{"redis p50 ms", quantile_ms<&PoolSample::redis_latency, 50>},
    RateColumn{"redis p99 ms", quantile_ms<&PoolSample::redis_latency, 99>},
    RateColumn{"redis errors", rate_per_second<&PoolSample::redis_errors>},
    RateColumn{"hot list hits percent", percent_of_sum<&PoolSample::list_hits, &PoolSample::list_misses>},
    RateColumn{"card hits percent",
               percent_of_sum<&PoolSample::item_cache_hits, &PoolSample::item_cache_misses>},
    RateColumn{"degraded percent", percent_degraded},
};

struct LevelColumn {
  std::string_view name;
  Member member;
};
constexpr std::array kLevels{
    LevelColumn{"idle processes", &PoolSample::idle},
    LevelColumn{"active processes", &PoolSample::active},
    LevelColumn{"redis used bytes", &PoolSample::redis_bytes},
    LevelColumn{"waiting writes", &PoolSample::queued_writes},
    LevelColumn{"recorder lag entries", &PoolSample::recorder_lag},
};

// Three decimals: more digits would make up most of the page.
double round_to_thousandth(double value) { return std::round(1000 * value) / 1000; }

}  // namespace

void write_history(json::Writer& writer, const std::vector<PoolSample>& samples,
                   std::chrono::milliseconds now) {
  const std::int64_t span = std::chrono::milliseconds(kHistorySpan).count();
  const std::int64_t rate = std::chrono::milliseconds(kHistoryRateWindow).count();
  std::size_t first = 0;
  while (first < samples.size() && now.count() - samples[first].at_ms > span) ++first;
  writer.begin_object().key("ms ago").begin_array();
  for (std::size_t i = first; i < samples.size(); ++i) writer.integer(now.count() - samples[i].at_ms);
  writer.end_array();
  for (const RateColumn& column : kRates) {
    writer.key(column.name).begin_array();
    std::size_t before = 0;
    for (std::size_t i = first; i < samples.size(); ++i) {
      // If there is no sample within kHistoryRate, compare with the previous one.
      while (before + 1 < i && samples[i].at_ms - samples[before].at_ms > rate) ++before;
      const Value value = before < i ? column.compute({samples[before], samples[i]}) : std::nullopt;
      value ? writer.number(round_to_thousandth(*value)) : writer.null();
    }
    writer.end_array();
  }
  for (const LevelColumn& column : kLevels) {
    writer.key(column.name).begin_array();
    for (std::size_t i = first; i < samples.size(); ++i) writer.unsigned_integer(samples[i].*column.member);
    writer.end_array();
  }
  writer.end_object();
}

}  // namespace freshet::handlers
