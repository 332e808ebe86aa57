#include "fcgi/handlers/status_history.h"

#include <cmath>
#include <optional>
#include <string_view>

namespace freshet::handlers {
namespace {

// A sample and the one before by which it is judged: the oldest of the kHistoryRate before it.
struct Stretch {
  const PoolSample& before;
  const PoolSample& now;
};
using Value = std::optional<double>;
using Member = std::uint64_t PoolSample::*;

double grown(const Stretch& in, Member member) {
  return static_cast<double>(in.now.*member - in.before.*member);
}

template <Member kMember>
Value a_second(const Stretch& in) {
  return 1000 * grown(in, kMember) / static_cast<double>(in.now.at_ms - in.before.at_ms);
}

template <Member kPart, Member kRest>
Value percent_of_both(const Stretch& in) {
  const double part = grown(in, kPart), both = part + grown(in, kRest);
  return both > 0 ? Value(100 * part / both) : std::nullopt;
}

Value percent_degraded(const Stretch& in) {
  const double pages = grown(in, &PoolSample::feed_pages);
  return pages > 0 ? Value(100 * grown(in, &PoolSample::feed_pages_degraded) / pages) : std::nullopt;
}

// In ms, as Prometheus' histogram_quantile: even within a bucket.
template <auto kMember, int kPercent>
Value quantile_ms(const Stretch& in) {
  const auto& before = in.before.*kMember;
  const auto& after = in.now.*kMember;
  double total = 0;
  for (std::size_t i = 0; i < kDurationBuckets; ++i) total += static_cast<double>(after[i] - before[i]);
  if (total <= 0) return std::nullopt;
  double wanted = total * kPercent / 100, low = 0;
  for (std::size_t i = 0; i < kDurationBounds.size(); ++i) {
    const auto bound = static_cast<double>(kDurationBounds[i]) / 1000;
    const auto count = static_cast<double>(after[i] - before[i]);
    if (count >= wanted) return low + (bound - low) * wanted / std::max(count, 1e-9);
    wanted -= count;
    low = bound;
  }
  return low;
}

struct RateColumn {
  std::string_view name;
  Value (*of)(const Stretch&);
};
constexpr std::array kRates{
    RateColumn{"requests", a_second<&PoolSample::requests>},
    RateColumn{"p50 ms", quantile_ms<&PoolSample::latency, 50>},
    RateColumn{"p99 ms", quantile_ms<&PoolSample::latency, 99>},
    RateColumn{"4xx", a_second<&PoolSample::client_errors>},
    RateColumn{"5xx", a_second<&PoolSample::server_errors>},
    RateColumn{"redis p50 ms", quantile_ms<&PoolSample::redis_latency, 50>},
    RateColumn{"redis p99 ms", quantile_ms<&PoolSample::redis_latency, 99>},
    RateColumn{"redis errors", a_second<&PoolSample::redis_errors>},
    RateColumn{"hot list hits percent", percent_of_both<&PoolSample::list_hits, &PoolSample::list_misses>},
    RateColumn{"card hits percent", percent_of_both<&PoolSample::card_hits, &PoolSample::card_misses>},
    RateColumn{"degraded percent", percent_degraded},
};

struct LevelColumn {
  std::string_view name;
  Member of;
};
constexpr std::array kLevels{
    LevelColumn{"idle processes", &PoolSample::idle},
    LevelColumn{"active processes", &PoolSample::active},
    LevelColumn{"redis used bytes", &PoolSample::redis_bytes},
    LevelColumn{"waiting writes", &PoolSample::waiting_writes},
    LevelColumn{"recorder lag entries", &PoolSample::recorder_lag},
};

// To a thousandth: more digits would be most of the page.
double rounded(double value) { return std::round(1000 * value) / 1000; }

}  // namespace

void write_history(json::Writer& writer, const std::vector<PoolSample>& samples,
                   std::chrono::milliseconds now) {
  const std::int64_t span = std::chrono::milliseconds(kHistorySpan).count();
  const std::int64_t rate = std::chrono::milliseconds(kHistoryRate).count();
  std::size_t first = 0;
  while (first < samples.size() && now.count() - samples[first].at_ms > span) ++first;
  writer.begin_object().key("ms ago").begin_array();
  for (std::size_t i = first; i < samples.size(); ++i) writer.integer(now.count() - samples[i].at_ms);
  writer.end_array();
  for (const RateColumn& column : kRates) {
    writer.key(column.name).begin_array();
    std::size_t before = 0;
    for (std::size_t i = first; i < samples.size(); ++i) {
      // Of one that stands alone, what it is since the sample before.
      while (before + 1 < i && samples[i].at_ms - samples[before].at_ms > rate) ++before;
      const Value value = before < i ? column.of({samples[before], samples[i]}) : std::nullopt;
      value ? writer.number(rounded(*value)) : writer.null();
    }
    writer.end_array();
  }
  for (const LevelColumn& column : kLevels) {
    writer.key(column.name).begin_array();
    for (std::size_t i = first; i < samples.size(); ++i) writer.unsigned_integer(samples[i].*column.of);
    writer.end_array();
  }
  writer.end_object();
}

}  // namespace freshet::handlers
