#include "core/recommend/rerank_features.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
struct Heads {
  double trend = 0, points = 0, recent = 0, affinity = 0;
};

// By candidate: how many of those the reader has not touched have a greater key.
template <class Key>
std::vector<double> places_by(std::span<const Ranked> candidates, const Key& key) {
  std::vector<std::uint32_t> order(candidates.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return key(candidates[a]) > key(candidates[b]) || (key(candidates[a]) == key(candidates[b]) && a < b);
  });
  std::vector<double> places(candidates.size());
  double before = 0;
  for (const std::uint32_t each : order) {
    places[each] = before;
    if (!candidates[each].in_profile) ++before;
  }
  return places;
}

}  // namespace

void rerank_features(const Catalogue& catalogue, std::span<const ProfileEvent> profile,
                     std::span<const Ranked> candidates, UnixSeconds now, std::vector<Features>& out) {
  const ReaderFacts reader(catalogue, profile, now);
  const auto by_trend = places_by(candidates, [](const Ranked& each) { return each.trend; });
  const auto by_newness = places_by(candidates, [](const Ranked& each) { return -each.age_hours; });
  std::vector<double> recent(candidates.size());
  Heads head;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Ranked& each = candidates[i];
    recent[i] = catalogue.recent(each.item, now);
    if (each.in_profile) continue;
    head.trend = std::max(head.trend, each.trend);
    head.points = std::max(head.points, each.points);
    head.recent = std::max(head.recent, recent[i]);
    head.affinity = std::max(head.affinity, each.affinity);
  }
  constexpr double kLeastTrend = 1e-300;  // the trend of a hostile date is still a number
  out.assign(candidates.size(), reader.facts());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Ranked& each = candidates[i];
    const UnixSeconds published = std::min(catalogue.published(each.item), now);
    const double affinity = head.affinity > 0 ? std::min(1.0, each.affinity / head.affinity) : 0;
    Features& x = out[i];
    set(x, Feature::kTrend, std::log(std::max(kLeastTrend, each.trend) / std::max(kLeastTrend, head.trend)));
    set(x, Feature::kAge, std::log(std::min(kMostHours, each.age_hours) + 2));
    set(x, Feature::kPoints, std::log((1 + each.points) / (1 + head.points)));
    set(x, Feature::kRecent, std::log((0.1 + recent[i]) / (0.1 + head.recent)));
    set(x, Feature::kTrendPlace, std::log1p(by_trend[i]));
    set(x, Feature::kNewness, std::log1p(by_newness[i]));
    set(x, Feature::kAffinity, affinity);
    set(x, Feature::kLogAffinity, std::log(0.01 + affinity));
    set(x, Feature::kNewSinceVisit, published > reader.last() ? 1 : 0);
    set(x, Feature::kHoursPassedOver, std::log1p(hours(reader.last() - published)));
    set(x, Feature::kEventsSince, std::log1p(reader.events_since(published)));
    set(x, Feature::kVisitsSince, std::log1p(reader.visits_since(published)));
  }
}

}  // namespace freshet::recommend
