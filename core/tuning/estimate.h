// Tells whether one list was clearly better than another at moments of the past. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/base/time.h"

namespace freshet::tuning {

// A mean and its 95 % confidence interval (Student's t over the blocks of time, see below).
struct Estimate {
  double mean = 0, low = 0, high = 0;
  std::size_t blocks = 0;
  // Significant at 95 % (one-sided, over all comparisons together), and at least kMinGain.
  bool is_clear_gain = false;
};
inline constexpr double kMinGain = 0.01;
inline constexpr std::size_t kMinBlocks = 4;

// The indexes of the moments, which ascend, by day counted back from the last one, or by quarter of
// a day if there are fewer than five days. Leaves out blocks with fewer than half of the moments of
// the fullest one.
std::vector<std::vector<std::size_t>> blocks_of(const std::vector<UnixSeconds>& moments);
// `means`: of the blocks. With fewer than kMinBlocks, low and high are NaN. `comparisons`: how many
// differences are tested at once, so that none of them is clear by chance (Bonferroni).
Estimate estimate(const std::vector<double>& means, std::size_t comparisons = 1);

// The candidate that replaces `current`, or `current` if nothing is clearly better: the best one,
// or the simplest one over which the best has no clear gain. `candidates`: the simplest first.
// gain(a, b): an Estimate of how much better a is than b; quality(a): the mean quality of a.
template <class Gain, class Quality>
std::size_t choose(std::size_t current, const std::vector<std::size_t>& candidates, Gain gain,
                   Quality quality) {
  std::vector<std::size_t> better;
  for (const std::size_t each : candidates) {
    if (each != current && gain(each, current).is_clear_gain) better.push_back(each);
  }
  if (better.empty()) return current;
  const std::size_t best = *std::ranges::max_element(better, {}, quality);
  return *std::ranges::find_if(
      better, [&](std::size_t each) { return each == best || !gain(best, each).is_clear_gain; });
}

}  // namespace freshet::tuning
