#include "core/recommend/rerank_features.h"

#include <algorithm>
#include <cmath>

namespace freshet::recommend {
namespace {

constexpr seconds kDay{86400};
constexpr double kMostHours = 1e6;  // a century: older is as old
constexpr double kUsualLogAge = 4;  // ln hours; what one event is worth before any is known
constexpr seconds kUsualHalfLife{30 * 86400};

double hours(seconds span) {
  return std::min(kMostHours, static_cast<double>(std::max<std::int64_t>(0, span.count())) / 3600);
}

Features& set(Features& features, Feature which, double value) {
  features[static_cast<std::size_t>(which)] = static_cast<float>(value);
  return features;
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
      const double recent = readers::recency(at, now, kUsualHalfLife);
      ages += recent * std::log(hours(at - catalogue.published(each.item)) + 2);
      weight += recent;
      of_day += readers::recency(at, now, kDay);
      of_week += readers::recency(at, now, 7 * kDay);
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
  double events_since(UnixSeconds at) const { return later(times_, at); }
  double visits_since(UnixSeconds at) const { return later(visits_, at); }

 private:
  // How many of `times`, descending, are later than `at`.
  static double later(const std::vector<UnixSeconds>& times, UnixSeconds at) {
    return static_cast<double>(std::lower_bound(times.begin(), times.end(), at, std::greater<>()) -
                               times.begin());
  }

  Features facts_{};
  std::vector<UnixSeconds> times_, visits_;  // descending; of each day the last event
};

// The greatest among candidates that the reader has not touched: what they could be shown.
struct Most {
  double trend = 0, points = 0, recent = 0, affinity = 0;
};

// How many of the candidates that the reader has not touched have a greater key.
class Places {
 public:
  template <class Key>
  Places(std::span<const Ranked> candidates, const Key& key) {
    keys_.reserve(candidates.size());
    for (const Ranked& each : candidates) {
      if (!each.in_profile) keys_.push_back(key(each));
    }
    std::sort(keys_.begin(), keys_.end(), std::greater<>());
  }
  double before(double key) const {
    return static_cast<double>(std::lower_bound(keys_.begin(), keys_.end(), key, std::greater<>()) -
                               keys_.begin());
  }

 private:
  std::vector<double> keys_;
};

}  // namespace

void rerank_features(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                     std::span<const Ranked> candidates, UnixSeconds now, std::vector<Features>& out) {
  const ReaderFacts reader(catalogue, profile, now);
  const Places by_trend(candidates, [](const Ranked& each) { return each.trend; });
  const Places by_newness(candidates, [](const Ranked& each) { return -each.age_hours; });
  const double decay = catalogue.recent_decay(now);
  std::vector<double> recent(candidates.size());
  Most most;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Ranked& each = candidates[i];
    recent[i] = catalogue.recent(each.item, decay);
    if (each.in_profile) continue;
    most.trend = std::max(most.trend, each.trend);
    most.points = std::max(most.points, each.points);
    most.recent = std::max(most.recent, recent[i]);
    most.affinity = std::max(most.affinity, each.affinity);
  }
  constexpr double kLeastTrend = 1e-300;  // the trend of a hostile date is still a number
  out.assign(candidates.size(), reader.facts());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Ranked& each = candidates[i];
    const UnixSeconds published = std::min(catalogue.published(each.item), now);
    const double affinity = most.affinity > 0 ? std::min(1.0, each.affinity / most.affinity) : 0;
    Features& x = out[i];
    set(x, Feature::kTrend, std::log(std::max(kLeastTrend, each.trend) / std::max(kLeastTrend, most.trend)));
    set(x, Feature::kAge, std::log(std::min(kMostHours, each.age_hours) + 2));
    set(x, Feature::kPoints, std::log((1 + each.points) / (1 + most.points)));
    set(x, Feature::kRecent, std::log((0.1 + recent[i]) / (0.1 + most.recent)));
    set(x, Feature::kTrendPlace, std::log1p(by_trend.before(each.trend)));
    set(x, Feature::kNewness, std::log1p(by_newness.before(-each.age_hours)));
    set(x, Feature::kAffinity, affinity);
    set(x, Feature::kLogAffinity, std::log(0.01 + affinity));
    set(x, Feature::kNewSinceVisit, published > reader.last() ? 1 : 0);
    set(x, Feature::kHoursPassedOver, std::log1p(hours(reader.last() - published)));
    set(x, Feature::kEventsSince, std::log1p(reader.events_since(published)));
    set(x, Feature::kVisitsSince, std::log1p(reader.visits_since(published)));
  }
}

}  // namespace freshet::recommend
