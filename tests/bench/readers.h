// Readers as a site has them: impressions a day log-normal (σ = 1.2), 60 on average: half see less
// than 30, one in a hundred more than 480.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

namespace freshet::bench {

inline constexpr double kMeanImpressions = 60;
inline constexpr double kSigma = 1.2;

inline std::int64_t impressions_of_one(std::mt19937_64& random) {
  std::lognormal_distribution<double> some(std::log(kMeanImpressions) - kSigma * kSigma / 2, kSigma);
  return std::max<std::int64_t>(1, std::llround(some(random)));
}

}  // namespace freshet::bench
