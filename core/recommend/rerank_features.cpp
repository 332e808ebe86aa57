#include "core/recommend/rerank_features.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "core/recommend/four.h"
#include "core/recommend/order.h"

namespace freshet::recommend {
namespace {

constexpr seconds kDay{86400};
constexpr double kMostHours = 1e6;  // a century: older is as old
constexpr double kUsualLogAge = 4;  // ln hours; what one event is worth before any is known
constexpr seconds kUsualHalfLife{30 * 86400};

double hours(seconds span) {
  return std::min(kMostHours, static_cast<double>(std::max<std::int64_t>(0, span.count())) / 3600);
}

void set(Features& features, Feature which, double value) {
  features[static_cast<std::size_t>(which)] = static_cast<float>(value);
}

// What is known of the reader, the same for all candidates.
class ReaderFacts {
 public:
  ReaderFacts(const Catalogue& catalogue, std::span<const ProfileEvent> profile, UnixSeconds now) {
    double ages = kUsualLogAge, weight = 1, of_day = 0, of_week = 0;
    times_.reserve(profile.size());
    for (const ProfileEvent& each : profile) {
      const UnixSeconds at = std::min(each.at, now);
      times_.push_back(at);
      const double recent = readers::recency_weight(at, now, kUsualHalfLife);
      ages += recent * std::log(hours(at - catalogue.published(each.item)) + 2);
      weight += recent;
      of_day += readers::recency_weight(at, now, kDay);
      of_week += readers::recency_weight(at, now, 7 * kDay);
    }
    std::sort(times_.begin(), times_.end(), std::greater<>());
    std::int64_t day = 0;
    for (const UnixSeconds at : times_) {
      const std::int64_t its_day = at.time_since_epoch() / kDay;
      if (visits_.empty() || its_day != day) visits_.push_back(at);
      day = its_day;
    }
    set(facts_, Feature::kEvents, std::log1p(static_cast<double>(profile.size())));
    set(facts_, Feature::kHoursAway, std::log1p(hours(now - last())));
    set(facts_, Feature::kUsualAge, ages / weight);
    set(facts_, Feature::kEventsOfDay, std::log1p(of_day));
    set(facts_, Feature::kEventsOfWeek, std::log1p(of_week));
  }

  const Features& facts() const { return facts_; }
  UnixSeconds last() const { return times_.front(); }
  std::size_t events_since(UnixSeconds at) const { return later(times_, at); }
  std::size_t visits_since(UnixSeconds at) const { return later(visits_, at); }

 private:
  // How many of `times`, descending, are later than `at`.
  static std::size_t later(const std::vector<UnixSeconds>& times, UnixSeconds at) {
    const auto end = std::lower_bound(times.begin(), times.end(), at, std::greater<>());
    return static_cast<std::size_t>(end - times.begin());
  }

  Features facts_{};
  std::vector<UnixSeconds> times_, visits_;  // descending; of each day the last event
};

// The greatest among candidates that the reader has not touched: what they could be shown.
struct Most {
  double trend = 0, points = 0, recent = 0, affinity = 0;
};

// ln(1 + a count).
float log_of_count(std::size_t count) {
  static const auto known = [] {
    std::array<float, 2048> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(std::log1p(i));
    return out;
  }();
  return count < known.size() ? known[count] : static_cast<float>(std::log1p(count));
}

// Sets a feature of each candidate to how many of those that the reader has not touched have a
// greater key.
void set_places(Feature which, std::span<const Ranked> candidates, std::span<const std::uint32_t> keys,
                std::vector<Features>& out) {
  Order order;
  std::size_t greater = 0, equal = 0;  // of those so far
  std::uint32_t key = 0;
  for (const std::uint32_t position : order.descending(keys)) {
    if (keys[position] != key) greater += std::exchange(equal, 0);
    key = keys[position];
    set(out[position], which, log_of_count(greater));
    if (!candidates[position].in_profile) ++equal;
  }
}

// Features that are logarithms, of all candidates.
constexpr std::array kLogs{Feature::kTrend,  Feature::kAge,         Feature::kPoints,
                           Feature::kRecent, Feature::kLogAffinity, Feature::kHoursPassedOver};
using Logs = std::array<std::vector<float>, kLogs.size()>;  // what they are of; > 0

void set_logs(Logs& numbers, std::vector<Features>& out) {
  for (std::size_t log = 0; log < kLogs.size(); ++log) {
    std::vector<float>& of = numbers[log];
    const auto which = static_cast<std::size_t>(kLogs[log]);
    of.resize((out.size() + 3) / 4 * 4, 1.F);
    for (std::size_t i = 0; i < of.size(); i += 4) store(log_of(four(&of[i])), &of[i]);
    for (std::size_t i = 0; i < out.size(); ++i) out[i][which] = of[i];
  }
}

// A ratio of numbers ≥ 0, that of the trend of a hostile date, too, as one of which there is a
// logarithm.
float ratio(double number, double to) {
  return static_cast<float>(std::clamp(number / std::max(1e-300, to), 1e-37, 1e37));
}

}  // namespace

void rerank_features(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                     std::span<const Ranked> candidates, UnixSeconds now, std::vector<Features>& out) {
  const ReaderFacts reader(catalogue, profile, now);
  const double decay = catalogue.recent_decay(now);
  std::vector<double> recent(candidates.size());
  std::vector<UnixSeconds> published(candidates.size());
  Most most;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Ranked& each = candidates[i];
    recent[i] = catalogue.recent(each.item, decay);
    published[i] = now - seconds{std::llround(each.age_hours * 3600)};
    if (each.in_profile) continue;
    most.trend = std::max(most.trend, each.trend);
    most.points = std::max(most.points, each.points);
    most.recent = std::max(most.recent, recent[i]);
    most.affinity = std::max(most.affinity, each.affinity);
  }
  out.assign(candidates.size(), reader.facts());
  Logs logs;
  for (auto& each : logs) each.reserve(candidates.size() + 4);
  std::vector<std::uint32_t> trends, newness;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Ranked& each = candidates[i];
    const double affinity = most.affinity > 0 ? std::min(1.0, each.affinity / most.affinity) : 0;
    Features& x = out[i];
    logs[0].push_back(ratio(each.trend, most.trend));
    logs[1].push_back(static_cast<float>(std::min(kMostHours, each.age_hours) + 2));
    logs[2].push_back(ratio(1 + each.points, 1 + most.points));
    logs[3].push_back(ratio(0.1 + recent[i], 0.1 + most.recent));
    logs[4].push_back(static_cast<float>(0.01 + affinity));
    logs[5].push_back(static_cast<float>(1 + hours(reader.last() - published[i])));
    set(x, Feature::kAffinity, affinity);
    set(x, Feature::kNewSinceVisit, published[i] > reader.last() ? 1 : 0);
    set(x, Feature::kEventsSince, log_of_count(reader.events_since(published[i])));
    set(x, Feature::kVisitsSince, log_of_count(reader.visits_since(published[i])));
    trends.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(each.trend)));
    const auto age = std::min<std::int64_t>((now - published[i]).count(), 0xFFFFFFFF);
    newness.push_back(0xFFFFFFFF - static_cast<std::uint32_t>(age));
  }
  set_logs(logs, out);
  set_places(Feature::kTrendPlace, candidates, trends, out);
  set_places(Feature::kNewness, candidates, newness, out);
}

}  // namespace freshet::recommend
