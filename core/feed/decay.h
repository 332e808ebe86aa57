// Gaussian decay by age, as Elasticsearch's `gauss` defines it:
//
//   decay(age) = exp(−max(0, age − offset)² / (2σ²)),   σ² = −scale² / (2·ln(decay))
//
// so it is 1 up to `offset`, and `decay` at offset + scale.
#pragma once

#include "core/base/time.h"
#include "core/config/settings.h"

namespace freshet::feed {

class GaussDecay {
 public:
  // REQUIRES: scale > 0, 0 < decay < 1, offset ≥ 0.
  GaussDecay(seconds offset, seconds scale, double decay);
  explicit GaussDecay(const RecallSettings& settings)
      : GaussDecay(settings.decay_offset, settings.decay_scale, settings.decay) {}

  // In [0, 1], never rising with age; 0 when it is too small for a double. A negative age (a date
  // in the future) counts as 0.
  double at(seconds age) const;
  double between(UnixSeconds published, UnixSeconds now) const { return at(now - published); }
  // An age from which on the factor is below `factor`: at most some seconds more than the least
  // one. REQUIRES: factor ≥ 0. Factors of 1 and more: the first age of the slope.
  seconds age_below(double factor) const;

 private:
  double offset_s_;
  double two_sigma_squared_;  // s²
};

}  // namespace freshet::feed
