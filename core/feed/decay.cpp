#include "core/feed/decay.h"

#include <algorithm>
#include <cmath>

namespace freshet::feed {

GaussDecay::GaussDecay(seconds offset, seconds scale, double decay)
    : offset_s_(static_cast<double>(offset.count())),
      two_sigma_squared_(-static_cast<double>(scale.count()) * static_cast<double>(scale.count()) /
                         std::log(decay)) {}

double GaussDecay::at(seconds age) const {
  const double beyond = std::max(0.0, static_cast<double>(age.count()) - offset_s_);
  return std::exp(-beyond * beyond / two_sigma_squared_);
}

seconds GaussDecay::age_below(double factor) const {
  // at() underflows to 0 here: exp(−746) is less than half of the smallest positive double.
  constexpr double kUnderflowExponent = 746.0;
  const double exponent =
      factor > 0 ? std::clamp(-std::log(factor), 0.0, kUnderflowExponent) : kUnderflowExponent;
  const double age = offset_s_ + std::sqrt(exponent * two_sigma_squared_);
  // One second for rounding up, plus one part in 10¹² for the error of log() and sqrt().
  return seconds{static_cast<std::int64_t>(std::ceil(age * (1 + 1e-12))) + 1};
}

}  // namespace freshet::feed
