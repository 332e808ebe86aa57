#include "core/recommend/rerank_features.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "core/recommend/float4.h"
#include "core/recommend/radix_sorter.h"

namespace freshet::recommend {
namespace {

constexpr seconds kDay{86400};
constexpr double kMaxHours = 1e6;   // about a century; older items are treated as this old
constexpr double kPriorLogAge = 4;  // prior mean, ln hours; weighs as much as one event
constexpr seconds kTypicalAgeHalfLife{30 * 86400};

double hours(seconds span) {
  return std::min(kMaxHours, static_cast<double>(std::max<std::int64_t>(0, span.count())) / 3600);
}

void set(FeatureVector& features, Feature feature, double value) {
  features[static_cast<std::size_t>(feature)] = static_cast<float>(value);
}

// Features of the reader; the same for all candidates.
class ReaderFeatures {
 public:
  ReaderFeatures(const Catalogue& catalogue, std::span<const ProfileEvent> profile, UnixSeconds now) {
    double ages = kPriorLogAge, weight = 1, day_events = 0, week_events = 0;
    times_.reserve(profile.size());
    for (const ProfileEvent& each : profile) {
      const UnixSeconds at = std::min(each.at, now);
      times_.push_back(at);
      const double recent = readers::recency_weight(at, now, kTypicalAgeHalfLife);
      ages += recent * std::log(hours(at - catalogue.published(each.item)) + 2);
      weight += recent;
      day_events += readers::recency_weight(at, now, kDay);
      week_events += readers::recency_weight(at, now, 7 * kDay);
    }
    std::sort(times_.begin(), times_.end(), std::greater<>());
    std::int64_t day = 0;
    for (const UnixSeconds at : times_) {
      const std::int64_t event_day = at.time_since_epoch() / kDay;
      if (visits_.empty() || event_day != day) visits_.push_back(at);
      day = event_day;
    }
    set(features_, Feature::kEvents, std::log1p(static_cast<double>(profile.size())));
    set(features_, Feature::kHoursAway, std::log1p(hours(now - last_event())));
    set(features_, Feature::kTypicalAge, ages / weight);
    set(features_, Feature::kEventsOfDay, std::log1p(day_events));
    set(features_, Feature::kEventsOfWeek, std::log1p(week_events));
  }

  const FeatureVector& features() const { return features_; }
  UnixSeconds last_event() const { return times_.front(); }
  std::size_t events_since(UnixSeconds at) const { return count_later(times_, at); }
  std::size_t visits_since(UnixSeconds at) const { return count_later(visits_, at); }

 private:
  // Number of `times` (descending) later than `at`.
  static std::size_t count_later(const std::vector<UnixSeconds>& times, UnixSeconds at) {
    const auto end = std::lower_bound(times.begin(), times.end(), at, std::greater<>());
    return static_cast<std::size_t>(end - times.begin());
  }

  FeatureVector features_{};
  std::vector<UnixSeconds> times_, visits_;  // descending; visits_ has the last event of each day
};

constexpr float kDecayedFloor = 0.1F;
constexpr std::size_t kRankedHalfLife = 1;  // 15 minutes

// Highest values among the candidates outside the profile, which are those that could be shown.
struct Maxima {
  double power_law = 0, points = 0, recent = 0, affinity = 0;
  Catalogue::DecayedViews decayed_views{};
};

// ln(1 + count), from a table for small counts.
float log1p_count(std::size_t count) {
  static const auto table = [] {
    std::array<float, 2048> out{};
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(std::log1p(i));
    return out;
  }();
  return count < table.size() ? table[count] : static_cast<float>(std::log1p(count));
}

// Sets a feature of each candidate to the number of candidates outside the profile with a greater
// key.
void set_ranks(Feature feature, std::span<const RankedCandidate> candidates,
               std::span<const std::uint32_t> keys, std::vector<FeatureVector>& out) {
  RadixSorter sorter;
  std::size_t greater = 0, equal = 0;  // outside the profile, among those visited so far
  std::uint32_t key = 0;
  for (const std::uint32_t position : sorter.sort_descending(keys)) {
    if (keys[position] != key) greater += std::exchange(equal, 0);
    key = keys[position];
    set(out[position], feature, log1p_count(greater));
    if (!candidates[position].in_profile) ++equal;
  }
}

// Features that are logarithms, computed four at a time.
constexpr std::array kLogFeatures{Feature::kTrend,     Feature::kAge,         Feature::kPoints,
                                  Feature::kRecent,    Feature::kLogAffinity, Feature::kHoursBeforeLastEvent,
                                  Feature::kDecayed5m, Feature::kDecayed15m,  Feature::kDecayed1h,
                                  Feature::kDecayed6h, Feature::kDecayed24h};
constexpr std::size_t kFirstDecayed = 6;  // in kLogFeatures
// Arguments of the logarithms, > 0, per feature.
using LogInputs = std::array<std::vector<float>, kLogFeatures.size()>;

void set_log_features(LogInputs& inputs, std::vector<FeatureVector>& out) {
  for (std::size_t log = 0; log < kLogFeatures.size(); ++log) {
    std::vector<float>& values = inputs[log];
    const auto feature = static_cast<std::size_t>(kLogFeatures[log]);
    values.resize((out.size() + 3) / 4 * 4, 1.F);
    for (std::size_t i = 0; i < values.size(); i += 4) store4(log4(load4(&values[i])), &values[i]);
    for (std::size_t i = 0; i < out.size(); ++i) out[i][feature] = values[i];
  }
}

// Ratio of two numbers ≥ 0, clamped so that its logarithm is finite (the trend of an absurd
// publication date may not be).
float ratio(double number, double reference) {
  return static_cast<float>(std::clamp(number / std::max(1e-300, reference), 1e-37, 1e37));
}

}  // namespace

void rerank_features(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                     std::span<const RankedCandidate> candidates, UnixSeconds now,
                     std::vector<FeatureVector>& out) {
  const ReaderFeatures reader(catalogue, profile, now);
  const double decay = catalogue.recent_decay(now);
  std::vector<double> recent(candidates.size());
  std::vector<UnixSeconds> published(candidates.size());
  Maxima maxima;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const RankedCandidate& each = candidates[i];
    recent[i] = catalogue.recent_events(each.item, decay);
    published[i] = now - seconds{std::llround(each.age_hours * 3600)};
    if (each.in_profile) continue;
    maxima.power_law = std::max(maxima.power_law, each.power_law);
    for (std::size_t k = 0; k < maxima.decayed_views.size(); ++k)
      maxima.decayed_views[k] = std::max(maxima.decayed_views[k], each.decayed_views[k]);
    maxima.points = std::max(maxima.points, each.points);
    maxima.recent = std::max(maxima.recent, recent[i]);
    maxima.affinity = std::max(maxima.affinity, each.affinity);
  }
  out.assign(candidates.size(), reader.features());
  LogInputs logs;
  for (auto& each : logs) each.reserve(candidates.size() + 4);
  std::vector<std::uint32_t> trends, newness, decayed;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const RankedCandidate& each = candidates[i];
    const double affinity = maxima.affinity > 0 ? std::min(1.0, each.affinity / maxima.affinity) : 0;
    FeatureVector& x = out[i];
    logs[0].push_back(ratio(each.power_law, maxima.power_law));
    logs[1].push_back(static_cast<float>(std::min(kMaxHours, each.age_hours) + 2));
    logs[2].push_back(ratio(1 + each.points, 1 + maxima.points));
    logs[3].push_back(ratio(0.1 + recent[i], 0.1 + maxima.recent));
    logs[4].push_back(static_cast<float>(0.01 + affinity));
    logs[5].push_back(static_cast<float>(1 + hours(reader.last_event() - published[i])));
    for (std::size_t k = 0; k < each.decayed_views.size(); ++k)
      logs[kFirstDecayed + k].push_back((kDecayedFloor + each.decayed_views[k]) /
                                        (kDecayedFloor + maxima.decayed_views[k]));
    set(x, Feature::kAffinity, affinity);
    set(x, Feature::kNewSinceVisit, published[i] > reader.last_event() ? 1 : 0);
    set(x, Feature::kEventsSincePublished, log1p_count(reader.events_since(published[i])));
    set(x, Feature::kVisitsSincePublished, log1p_count(reader.visits_since(published[i])));
    trends.push_back(std::bit_cast<std::uint32_t>(static_cast<float>(each.power_law)));
    decayed.push_back(std::bit_cast<std::uint32_t>(each.decayed_views[kRankedHalfLife]));
    const auto age = std::min<std::int64_t>((now - published[i]).count(), 0xFFFFFFFF);
    newness.push_back(0xFFFFFFFF - static_cast<std::uint32_t>(age));
  }
  set_log_features(logs, out);
  set_ranks(Feature::kTrendRank, candidates, trends, out);
  set_ranks(Feature::kDecayedRank, candidates, decayed, out);
  set_ranks(Feature::kNewnessRank, candidates, newness, out);
}

}  // namespace freshet::recommend
