// Trending model: the sum of an article's views, each halved with every half-life since it was
// counted: Σ 2^(−(now − t)/h).
//
// As in core/hot/engagement.h, ranks and counters hold log2 of the sum plus now/h. That number
// changes only when a view is counted, by parts/trend.lua. An article enters with hot.birth_views
// views at its publication.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>

#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/hot/engagement.h"

namespace freshet::hot {

// Index of a half-life; nullopt if there is no such sum.
constexpr std::optional<std::size_t> trending_index(seconds half_life) {
  const auto found = std::ranges::find(kTrendingHalfLives, half_life);
  if (found == kTrendingHalfLives.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kTrendingHalfLives.begin());
}

// log2(2^a + 2^b), without overflow; −infinity is a sum of 0.
inline double add_log2(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return std::isinf(low) ? high : high + std::log2(1 + std::exp2(low - high));
}

// log2(2^a − 2^b). −infinity if less than 2^-30 of the sum remains, which is its precision.
inline double subtract_log2(double a, double b) {
  if (std::isinf(b)) return a;
  const double remaining = 1 - std::exp2(b - a);
  constexpr double kPrecision = 0x1p-30;
  return remaining > kPrecision ? a + std::log2(remaining) : -std::numeric_limits<double>::infinity();
}

// By index of the half-life; −infinity: no views.
using TrendSums = std::array<double, kTrendingHalfLives.size()>;

inline TrendSums no_trend() {
  TrendSums sums;
  sums.fill(-std::numeric_limits<double>::infinity());
  return sums;
}

// The sums of one view at `time`.
inline TrendSums trend_of_view(UnixSeconds time) {
  TrendSums sums;
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] = half_lives(time.time_since_epoch(), kTrendingHalfLives[i]);
  return sums;
}

// The age that about half of `views` views are younger than, at `now`: the half-life under which
// they count half, interpolated between those of kTrendingHalfLives; exact if all have one age. At
// least the first and at most the last of them.
inline seconds median_age(const TrendSums& sums, double views, UnixSeconds now) {
  const auto share = [&](std::size_t i) { return score_at(sums[i], now, kTrendingHalfLives[i]) / views; };
  std::size_t i = 0;
  while (i < sums.size() && share(i) < 0.5) ++i;
  if (i == 0) return kTrendingHalfLives.front();
  if (i == sums.size()) return kTrendingHalfLives.back();
  const double below = share(i - 1), above = share(i);
  const double from = std::log(kTrendingHalfLives[i - 1].count()),
               to = std::log(kTrendingHalfLives[i].count());
  return seconds(std::llround(std::exp(from + (to - from) * (0.5 - below) / (above - below))));
}

}  // namespace freshet::hot
