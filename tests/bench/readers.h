// A realistic distribution of impressions per reader and day: log-normal with σ = 1.2 and mean 60,
// so half of the readers see fewer than 30 items and 1 % more than 480.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

namespace freshet::bench {

inline constexpr double kMeanImpressions = 60;
inline constexpr double kSigma = 1.2;

inline std::int64_t draw_daily_impressions(std::mt19937_64& random) {
  std::lognormal_distribution<double> impressions(std::log(kMeanImpressions) - kSigma * kSigma / 2, kSigma);
  return std::max<std::int64_t>(1, std::llround(impressions(random)));
}

}  // namespace freshet::bench
