#include "core/tuning/hot_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace freshet::tuning {
namespace {

// The mean of `values` over the blocks, each the mean of next hour and next day.
template <class Values>
Estimate estimate(const HotScores& scores, Values values) {
  std::vector<double> means;
  for (const auto& block : blocks_of(scores.moments)) {
    double sum = 0;
    int terms = 0;
    for (const auto* horizon : {&scores.next_hour, &scores.next_day}) {
      double total = 0;
      int count = 0;
      for (const std::size_t moment : block) {
        const double value = values(*horizon, moment);
        if (std::isnan(value)) continue;
        total += value;
        ++count;
      }
      if (count == 0) continue;
      sum += total / count;
      ++terms;
    }
    if (terms > 0) means.push_back(sum / terms);
  }
  return tuning::estimate(means);
}

std::size_t index_of(const HotScores& scores, const HotCandidate& list) {
  return static_cast<std::size_t>(std::ranges::find(scores.lists, list) - scores.lists.begin());
}

std::vector<std::size_t> lists_of(const HotScores& scores, HotFormula formula) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < scores.lists.size(); ++i) {
    if (scores.lists[i].formula == formula) out.push_back(i);
  }
  return out;
}

std::size_t choose(const HotScores& scores, std::size_t current, const std::vector<std::size_t>& lists) {
  return tuning::choose(
      current, lists, [&](std::size_t each, std::size_t than) { return gain(scores, each, than); },
      [&](std::size_t each) { return quality(scores, each).mean; });
}

std::string figures(const HotScores& scores, std::size_t list) {
  const double hour = mean_of(scores.next_hour[list]), day = mean_of(scores.next_day[list]);
  std::string out = scores.lists[list].name() + " (";
  if (!std::isnan(hour)) out += fmt::format("next hour {:.3f}", hour);
  if (!std::isnan(hour) && !std::isnan(day)) out += ", ";
  if (!std::isnan(day)) out += fmt::format("next day {:.3f}", day);
  return out + ")";
}

std::string reason(const HotScores& scores, std::string_view what, std::size_t before, std::size_t after) {
  if (before == after)
    return fmt::format("{}: keeps {}; no other is clearly better.", what, figures(scores, before));
  const Estimate by = gain(scores, after, before);
  return fmt::format("{}: {} instead of {}; gain {:.3f}, 95 % interval {:.3f} to {:.3f}, {} blocks.", what,
                     figures(scores, after), figures(scores, before), by.mean, by.low, by.high, by.blocks);
}

}  // namespace

Estimate quality(const HotScores& scores, std::size_t list) {
  return estimate(scores, [&](const auto& horizon, std::size_t moment) { return horizon[list][moment]; });
}

Estimate gain(const HotScores& scores, std::size_t list, std::size_t than) {
  return estimate(scores, [&](const auto& horizon, std::size_t moment) {
    return horizon[list][moment] - horizon[than][moment];
  });
}

HotDecision tune_hot_lists(const ViewHistory& history, const HotValues& current, const HotMoments& moments) {
  HotDecision out{current, score_hot_lists(history, current, moments), false, {}};
  const HotScores& scores = out.scores;
  const std::size_t hours = count_of(scores.next_hour[0]), days = count_of(scores.next_day[0]);
  out.has_evidence = std::max(hours, days) >= kMinMoments;
  if (!out.has_evidence) {
    out.reasons.push_back(
        fmt::format("Too little traffic yet, so nothing changes: {} moments have {} views in the next hour "
                    "and {} moments "
                    "{} in the next 24 hours; {} are needed.",
                    hours, moments.min_next_hour, days, moments.min_next_day, kMinMoments));
    return out;
  }
  const auto pick = [&](HotFormula formula, double parameter) {
    return choose(scores, index_of(scores, {formula, parameter}), lists_of(scores, formula));
  };
  const auto seconds_of = [&](std::size_t list) {
    return seconds{static_cast<std::int64_t>(scores.lists[list].parameter)};
  };
  HotValues& values = out.values;
  const std::size_t power_law = pick(HotFormula::kCurrent, current.gamma);
  const std::size_t engagement =
      pick(HotFormula::kEngagement, static_cast<double>(current.engagement_half_life.count()));
  const std::size_t trending =
      pick(HotFormula::kTrending, static_cast<double>(current.trending_half_life.count()));
  const std::size_t served = index_of(scores, current.served());
  const std::size_t choice = choose(scores, served, {0, power_law, engagement, trending});
  values.engagement_half_life = seconds_of(engagement);
  values.trending_half_life = seconds_of(trending);
  if (choice != served) {
    const HotFormula formula = scores.lists[choice].formula;
    values.default_model = formula == HotFormula::kEngagement ? "engagement"
                           : formula == HotFormula::kTrending ? "trending"
                                                              : "views";
    if (values.default_model == "views")
      values.default_mode = formula == HotFormula::kCurrent ? "current" : "accumulate";
  }
  // The default list of the source design keeps its gamma.
  if (scores.lists[choice].formula == HotFormula::kCurrent) values.gamma = scores.lists[choice].parameter;
  out.reasons.push_back(reason(scores, "The list served by default", served, choice));
  out.reasons.push_back(reason(
      scores, "trending.half_life",
      index_of(scores, {HotFormula::kTrending, static_cast<double>(current.trending_half_life.count())}),
      trending));
  out.reasons.push_back(reason(
      scores, "hot.half_life",
      index_of(scores, {HotFormula::kEngagement, static_cast<double>(current.engagement_half_life.count())}),
      engagement));
  return out;
}

}  // namespace freshet::tuning
