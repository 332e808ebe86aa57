// Chooses the hot list that is served by default and its parameters, by how well each list would
// have predicted what was read next on this site (hot_scores.h). Pure.
#pragma once

#include <string>
#include <vector>

#include "core/tuning/estimate.h"
#include "core/tuning/hot_scores.h"

namespace freshet::tuning {

inline constexpr std::size_t kMinMoments = 20;

// A list's quality: the mean of next hour and next day.
Estimate quality(const HotScores& scores, std::size_t list);
// How much better `list` is than `than`: paired differences. The blocks are days, or quarters of a
// day if there are fewer than five days.
Estimate gain(const HotScores& scores, std::size_t list, std::size_t than);

struct HotDecision {
  HotValues values;
  HotScores scores;                  // of hot_candidates(the current values)
  bool has_evidence = false;         // false: too little traffic, so `values` are the current ones
  std::vector<std::string> reasons;  // sentences
};

// Keeps what is in `current` unless the gain of something else is clear. Of several lists, the best
// is chosen, or the simplest one over which the best has no clear gain: views, then engagement,
// then trending, and longer half-lives first.
HotDecision tune_hot_lists(const ViewHistory& history, const HotValues& current,
                           const HotMoments& moments = {});

}  // namespace freshet::tuning
