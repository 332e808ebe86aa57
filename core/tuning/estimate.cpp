#include "core/tuning/estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

namespace freshet::tuning {
namespace {

constexpr seconds kBlock{86400}, kShortBlock{kBlock / 4};
constexpr double kSignificance = 0.05;

// The value that a normally distributed one exceeds with this probability, below 0.5.
double normal_quantile(double probability) {
  double low = 0, high = 40;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(middle / std::sqrt(2.0)) / 2 > probability ? low : high) = middle;
  }
  return high;
}

// The quantile of Student's t for a quantile of the normal distribution (Cornish-Fisher): for three
// degrees of freedom or more it is exact to 0.5 %.
double student_t(double normal, std::size_t degrees) {
  const double n = static_cast<double>(degrees), z = normal, z2 = z * z;
  return z * (1 + (z2 + 1) / (4 * n) + ((5 * z2 + 16) * z2 + 3) / (96 * n * n) +
              (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * n * n * n));
}

// The moments by blocks of this length, counted from the last moment. Leaves out blocks with fewer
// than half of the moments of the fullest one.
std::vector<std::vector<std::size_t>> blocks_of_length(const std::vector<UnixSeconds>& moments,
                                                       seconds length) {
  std::map<std::int64_t, std::vector<std::size_t>> blocks;
  std::size_t fullest = 0;
  for (std::size_t i = 0; i < moments.size(); ++i) {
    auto& block = blocks[(moments.back() - moments[i]) / length];
    block.push_back(i);
    fullest = std::max(fullest, block.size());
  }
  std::vector<std::vector<std::size_t>> out;
  for (auto& [number, block] : blocks) {
    if (2 * block.size() >= fullest) out.push_back(std::move(block));
  }
  return out;
}

}  // namespace

std::vector<std::vector<std::size_t>> blocks_of(const std::vector<UnixSeconds>& moments) {
  constexpr std::size_t kMinDayBlocks = 5;
  auto days = blocks_of_length(moments, kBlock);
  return days.size() >= kMinDayBlocks ? days : blocks_of_length(moments, kShortBlock);
}

Estimate estimate(const std::vector<double>& means, std::size_t comparisons) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Estimate out{.low = kNan, .high = kNan, .blocks = means.size()};
  if (means.empty()) return out;
  const auto n = static_cast<double>(means.size());
  out.mean = std::accumulate(means.begin(), means.end(), 0.0) / n;
  if (means.size() < kMinBlocks) return out;
  double squares = 0;
  for (const double each : means) squares += (each - out.mean) * (each - out.mean);
  const double error = std::sqrt(squares / (n - 1) / n);
  const double width = error * student_t(normal_quantile(kSignificance / 2), means.size() - 1);
  out.low = out.mean - width;
  out.high = out.mean + width;
  const double one_sided =
      normal_quantile(kSignificance / static_cast<double>(std::max<std::size_t>(comparisons, 1)));
  out.is_clear_gain = out.mean >= kMinGain && out.mean - error * student_t(one_sided, means.size() - 1) > 0;
  return out;
}

}  // namespace freshet::tuning
