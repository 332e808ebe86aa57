// Chooses recall's scale, interest weight and trend weight by how well each feed would have
// predicted what readers of this site read (feed_scores.h). Pure.
#pragma once

#include <string>
#include <vector>

#include "core/tuning/estimate.h"
#include "core/tuning/feed_scores.h"

namespace freshet::tuning {

inline constexpr std::size_t kMinFeedCases = 200, kMinFeedDays = 5;

// The members of a FeedCandidate that the administrator set.
struct FixedFeedValues {
  bool decay_scale = false, interest_weight = false, trend_weight = false;
};

// The current values, and those that could replace them: the simplest (small weights and long
// scales) first.
std::vector<FeedCandidate> feed_candidates(const FeedCandidate& current, const FixedFeedValues& fixed = {});

// A candidate's mean over the days, and how much better it is than another: paired by day. A gain
// is clear at a level for all candidates together.
Estimate quality(const FeedScores& scores, std::size_t candidate);
Estimate gain(const FeedScores& scores, std::size_t candidate, std::size_t than);

struct FeedDecision {
  FeedCandidate values;
  FeedScores scores;          // may be empty
  bool has_evidence = false;  // false: too few cases, so `values` are the current ones
  std::string reason;         // a sentence
};

// Keeps the first candidate unless the gain of another is clear, see choose().
FeedDecision tune_feed(FeedScores scores);
// The decision if there are too few cases.
FeedDecision keep_feed(const FeedCandidate& current, std::size_t cases, std::size_t days);

}  // namespace freshet::tuning
