#include "core/training/ranking/compare_rankings.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

#include "core/training/validation.h"

namespace freshet::training {
namespace {

using model::ChosenRanking;
using model::RankingMethod;
using recommend::RankedCandidate;

// The trends: the power law and the half-lives. Each is combined with each weight of affinity.
constexpr std::array kWeights{0.F, 0.25F, 0.5F, 1.F, 2.F, 4.F};
constexpr std::size_t kTrends = 1 + kTrendingHalfLives.size();
constexpr std::size_t kReranker = kTrends * kWeights.size(), kWithDiscoveries = kReranker + 1;
constexpr std::size_t kStrategies = kWithDiscoveries + 1;

constexpr std::size_t strategy_of(std::size_t trend, std::size_t weight) {
  return trend * kWeights.size() + weight;
}

ChosenRanking ranking_of(std::size_t strategy) {
  const std::size_t trend = strategy / kWeights.size(), weight = strategy % kWeights.size();
  return {weight == 0 ? RankingMethod::kTrend : RankingMethod::kAffinity,
          trend == 0 ? seconds{0} : kTrendingHalfLives[trend - 1], kWeights[weight], false};
}

double trend_of(const RankedCandidate& candidate, std::size_t trend) {
  return trend == 0 ? candidate.power_law : static_cast<double>(candidate.decayed_views[trend - 1]);
}

recommend::RankingSettings with(recommend::RankingSettings settings, bool rerank, bool discoveries) {
  settings.rerank = rerank;
  settings.trend_half_life = seconds{0};
  settings.cf_weight = settings.cf_weight.value_or(recommend::RankingFormula{}.cf_weight);
  settings.discover_every = discoveries ? recommend::RankingFormula{}.discover_every : 0;
  return settings;
}

// A reader who comes back on a day, and the items that they pick then for the first time.
struct ComebackCase {
  UnixSeconds at;
  std::uint32_t reader = 0;
  std::vector<std::uint32_t> picked;         // in the 24 hours from `at`; ascending
  std::vector<std::uint32_t> picked_by_day;  // until the end of the day, among what existed at its start
};

void sort_unique(std::vector<std::uint32_t>& items) {
  std::sort(items.begin(), items.end());
  items.erase(std::unique(items.begin(), items.end()), items.end());
}

// The cases of the day that starts at replay.known().now, by time.
std::vector<ComebackCase> find_cases(const EventReplay& replay, std::size_t limit) {
  const UnixSeconds end = replay.known().now + kOneDay;
  std::map<std::uint32_t, ComebackCase> by_reader;
  for (const TrainingEvent& each : replay.upcoming(end + kOneDay)) {
    if (replay.events_of(each.reader).empty()) continue;
    auto found = by_reader.find(each.reader);
    if (found == by_reader.end()) {
      if (each.at >= end) continue;
      found = by_reader.emplace(each.reader, ComebackCase{each.at, each.reader, {}, {}}).first;
    }
    ComebackCase& reader = found->second;
    if (replay.has_touched(each.reader, each.item)) continue;
    if (each.at < reader.at + kOneDay && replay.published(each.item) < reader.at)
      reader.picked.push_back(each.item);
    if (each.at < end && replay.exists(each.item)) reader.picked_by_day.push_back(each.item);
  }
  std::vector<ComebackCase> all;
  for (auto& [reader, each] : by_reader) {
    sort_unique(each.picked);
    sort_unique(each.picked_by_day);
    if (!each.picked.empty()) all.push_back(std::move(each));
  }
  const std::size_t stride =
      std::max<std::size_t>(1, (all.size() + limit - 1) / std::max<std::size_t>(1, limit));
  std::vector<ComebackCase> out;
  for (std::size_t i = 0; i < all.size(); i += stride) out.push_back(std::move(all[i]));
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
  return out;
}

// A catalogue at replay.known().now, with index mappings: data → catalogue and back.
struct LiveCatalogue {
  LiveCatalogue(const EventReplay& replay, const std::shared_ptr<const model::Model>& model,
                const RerankDatasetSettings& settings)
      : catalogue(model,
                  replay.live_items(settings.trend_items, settings.trending_items, settings.newest_items)),
        to_catalogue(catalogue_indexes(catalogue, replay.known())),
        to_data(catalogue.size(), kNotInCatalogue) {
    for (std::uint32_t item = 0; item < to_catalogue.size(); ++item) {
      if (to_catalogue[item] != kNotInCatalogue) to_data[to_catalogue[item]] = item;
    }
  }
  recommend::Catalogue catalogue;
  std::vector<std::uint32_t> to_catalogue, to_data;
};

// The candidates that may be shown to the reader, in the ranker's order, with their indexes into
// the data.
struct Eligible {
  std::vector<std::uint32_t> items;
  std::vector<std::uint32_t> positions;  // in the ranking
};

Eligible find_eligible(std::span<const RankedCandidate> ranked, std::span<const std::uint32_t> to_data,
                       const EventReplay& replay, std::uint32_t reader) {
  Eligible out;
  for (std::uint32_t i = 0; i < ranked.size(); ++i) {
    const std::uint32_t item = to_data[ranked[i].item];
    if (ranked[i].in_profile || item == kNotInCatalogue || !replay.exists(item) ||
        replay.has_touched(reader, item))
      continue;
    out.items.push_back(item);
    out.positions.push_back(i);
  }
  return out;
}

float score_ranking(const Eligible& eligible, std::span<const std::uint32_t> picked) {
  const std::span<const std::uint32_t> items(eligible.items);
  return static_cast<float>(ndcg(items.first(std::min(kListLength, items.size())), picked));
}

}  // namespace

RankingComparison::RankingComparison(const recommend::RankingSettings& settings)
    : formula_(with(settings, false, false)),
      reranker_(with(settings, true, false)),
      with_discoveries_(with(settings, true, true)) {}

void RankingComparison::add_day(EventReplay& replay, const std::shared_ptr<const model::Model>& model,
                                const RerankDatasetSettings& settings, std::size_t limit) {
  const UnixSeconds day = replay.known().now;
  const auto comebacks = find_cases(replay, limit);
  const LiveCatalogue at_midnight(replay, model, settings);
  std::vector<std::vector<float>> scores_at_midnight;
  for (const ComebackCase& each : comebacks)
    scores_at_midnight.push_back(each.picked_by_day.empty()
                                     ? std::vector<float>()
                                     : score(replay, at_midnight.catalogue, at_midnight.to_catalogue,
                                             at_midnight.to_data, each.reader, each.picked_by_day));
  for (std::size_t i = 0; i < comebacks.size(); ++i) {
    const ComebackCase& each = comebacks[i];
    replay.advance_to(each.at);
    const LiveCatalogue live(replay, model, settings);
    Case& result = cases_.emplace_back(
        Case{day, !model->reranker().empty(),
             score(replay, live.catalogue, live.to_catalogue, live.to_data, each.reader, each.picked)});
    const std::vector<float>& earlier = scores_at_midnight[i];
    for (std::size_t k = 0; k < earlier.size(); ++k) result.ndcg[k] = (result.ndcg[k] + earlier[k]) / 2;
  }
}

std::vector<float> RankingComparison::score(const EventReplay& replay, const recommend::Catalogue& catalogue,
                                            std::span<const std::uint32_t> to_catalogue,
                                            std::span<const std::uint32_t> to_data, std::uint32_t reader,
                                            std::span<const std::uint32_t> picked) {
  const UnixSeconds now = replay.known().now;
  std::vector<recommend::ProfileEvent> profile;
  const auto events = replay.events_of(reader);
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    if (to_catalogue[event->item] != kNotInCatalogue)
      profile.push_back({to_catalogue[event->item], event->kind, event->at});
  }
  std::vector<float> out(kStrategies);
  const auto& ranked = formula_.rank(catalogue, profile, now);
  const Eligible eligible = find_eligible(ranked, to_data, replay, reader);
  std::vector<std::uint32_t> rows(eligible.items.size());
  std::iota(rows.begin(), rows.end(), 0U);
  std::vector<float> scores(rows.size());
  for (std::size_t trend = 0; trend < kTrends; ++trend) {
    for (std::size_t weight = 0; weight < kWeights.size(); ++weight) {
      for (const std::uint32_t row : rows) {
        const RankedCandidate& candidate = ranked[eligible.positions[row]];
        scores[row] = static_cast<float>(trend_of(candidate, trend) *
                                         (1 + static_cast<double>(kWeights[weight]) * candidate.affinity));
      }
      std::vector<std::uint32_t> best = top_scored(rows, scores);
      for (std::uint32_t& row : best) row = eligible.items[row];
      out[strategy_of(trend, weight)] = static_cast<float>(ndcg(best, picked));
    }
  }
  for (const std::size_t strategy : {kReranker, kWithDiscoveries}) {
    recommend::Ranker& ranker = strategy == kReranker ? reranker_ : with_discoveries_;
    out[strategy] =
        score_ranking(find_eligible(ranker.rank(catalogue, profile, now), to_data, replay, reader), picked);
  }
  return out;
}

void RankingComparison::discard_before(UnixSeconds day) {
  std::erase_if(cases_, [&](const Case& each) { return each.day < day; });
}

double RankingComparison::mean(std::span<const Case> cases, std::size_t strategy) {
  double sum = 0;
  for (const Case& each : cases) sum += static_cast<double>(each.ndcg[strategy]);
  return sum / static_cast<double>(cases.size());
}

bool RankingComparison::is_clear_gain(std::span<const Case> cases, std::size_t strategy, std::size_t than,
                                      double at_least) {
  constexpr double kOneSided95 = 1.66;  // Student's t with 100 degrees of freedom
  double sum = 0, squares = 0;
  const auto count = static_cast<double>(cases.size());
  for (const Case& each : cases) {
    const double gain = static_cast<double>(each.ndcg[strategy]) - static_cast<double>(each.ndcg[than]);
    sum += gain;
    squares += gain * gain;
  }
  const double gain = sum / count;
  const double variance = std::max(0.0, squares / count - gain * gain) / (count - 1);
  return gain >= at_least && gain > kOneSided95 * std::sqrt(variance);
}

RankingChoice RankingComparison::choose() const {
  RankingChoice out;
  std::vector<Case> cases = cases_;
  std::erase_if(cases, [](const Case& each) { return !each.has_reranker; });
  const bool has_reranker = cases.size() >= kMinCases;
  if (!has_reranker) cases = cases_;
  out.cases = cases.size();
  if (cases.size() < kMinCases) return out;
  const auto mean = [&](std::size_t strategy) { return RankingComparison::mean(cases, strategy); };
  std::size_t trend = 0, affinity = 1;
  for (std::size_t i = 0; i < kReranker; ++i) {
    std::size_t& best = i % kWeights.size() == 0 ? trend : affinity;
    if (mean(i) > mean(best)) best = i;
  }
  const bool discoveries = !is_clear_gain(cases, kReranker, kWithDiscoveries, kDiscoveryCost);
  const std::size_t reranker = discoveries ? kWithDiscoveries : kReranker;
  constexpr std::size_t kViewsByAge = 0;
  std::vector<std::size_t> simplest{kViewsByAge, trend, affinity};
  if (has_reranker) simplest.push_back(reranker);
  const std::size_t best = *std::ranges::max_element(simplest, {}, mean);
  const auto is_better = [&](std::size_t each) {  // the best one than `each`
    return best >= kReranker ? mean(best) - mean(each) >= kMinGain
                             : is_clear_gain(cases, best, each, kMinGain);
  };
  const std::size_t chosen =
      *std::ranges::find_if(simplest, [&](std::size_t each) { return each == best || !is_better(each); });

  const auto describe = [&](std::size_t strategy) {
    ChosenRanking ranking = ranking_of(strategy < kReranker ? strategy : affinity);
    if (strategy >= kReranker) ranking.method = RankingMethod::kReranker;
    if (ranking.method != RankingMethod::kTrend)
      ranking.discoveries = strategy == kWithDiscoveries || (strategy < kReranker && discoveries);
    return ranking;
  };
  const auto add = [&](std::size_t strategy) {
    const ChosenRanking ranking = describe(strategy);
    out.compared.push_back({ranking, mean(strategy), strategy == chosen});
  };
  for (std::size_t i = 0; i < kTrends; ++i) add(strategy_of(i, 0));
  add(affinity);
  if (has_reranker) {
    add(kReranker);
    add(kWithDiscoveries);
  }
  out.ranking = describe(chosen);
  return out;
}

}  // namespace freshet::training
