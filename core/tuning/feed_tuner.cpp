#include "core/tuning/feed_tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace freshet::tuning {
namespace {

constexpr std::array kTrendWeights{0.0, 0.05, 0.2, 1.0};
constexpr std::array kInterestWeights{0.005, 0.02, 0.1};
constexpr std::array kScales{seconds{30 * 86400}, seconds{7 * 86400}, seconds{86400}};

template <class Values>
Estimate by_day(const FeedScores& scores, Values values) {
  std::vector<double> means;
  for (const auto& day : blocks_of(scores.days)) {
    double sum = 0;
    for (const std::size_t each : day) sum += values(each);
    means.push_back(sum / static_cast<double>(day.size()));
  }
  return estimate(means, scores.candidates.size() - 1);
}

}  // namespace

std::vector<FeedCandidate> feed_candidates(const FeedCandidate& current, const FixedFeedValues& fixed) {
  std::vector<FeedCandidate> out{current};
  for (const double trend : kTrendWeights) {
    for (const double interest : kInterestWeights) {
      for (const seconds scale : kScales) {
        const FeedCandidate each{fixed.decay_scale ? current.decay_scale : scale,
                                 fixed.interest_weight ? current.interest_weight : interest,
                                 fixed.trend_weight ? current.trend_weight : trend};
        if (std::ranges::find(out, each) == out.end()) out.push_back(each);
      }
    }
  }
  return out;
}

Estimate quality(const FeedScores& scores, std::size_t candidate) {
  return by_day(scores, [&](std::size_t each) { return scores.ndcg[candidate][each]; });
}

Estimate gain(const FeedScores& scores, std::size_t candidate, std::size_t than) {
  return by_day(scores,
                [&](std::size_t each) { return scores.ndcg[candidate][each] - scores.ndcg[than][each]; });
}

FeedDecision keep_feed(const FeedCandidate& current, std::size_t cases, std::size_t days) {
  return {
      .values = current,
      .reason = fmt::format("The feed: too few readers come back yet, so nothing changes: {} visits on {} "
                            "days; {} on {} days are needed.",
                            cases, days, kMinFeedCases, kMinFeedDays)};
}

FeedDecision tune_feed(FeedScores scores) {
  const FeedCandidate current = scores.candidates.front();
  const std::size_t cases = scores.days.size(), days = cases == 0 ? 0 : quality(scores, 0).blocks;
  if (cases < kMinFeedCases || days < kMinFeedDays) return keep_feed(current, cases, days);
  std::vector<std::size_t> all(scores.candidates.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const std::size_t choice = choose(
      0, all, [&](std::size_t each, std::size_t than) { return gain(scores, each, than); },
      [&](std::size_t each) { return quality(scores, each).mean; });
  const auto figures = [&](std::size_t each) {
    return fmt::format("{} (next day {:.3f})", scores.candidates[each].name(), quality(scores, each).mean);
  };
  std::string reason = "The feed: keeps " + figures(0) + "; no other is clearly better.";
  if (choice != 0) {
    const Estimate by = gain(scores, choice, 0);
    reason = fmt::format("The feed: {} instead of {}; gain {:.3f}, 95 % interval {:.3f} to {:.3f}, {} days.",
                         figures(choice), figures(0), by.mean, by.low, by.high, by.blocks);
  }
  const FeedCandidate values = scores.candidates[choice];
  return {values, std::move(scores), true, std::move(reason)};
}

}  // namespace freshet::tuning
