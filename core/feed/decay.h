// Gaussian decay by age, as Elasticsearch's `gauss` defines it:
//
//   decay(age) = exp(−max(0, age − offset)² / (2σ²)),   σ² = −scale² / (2·ln(decay))
//
// It is 1 up to `offset` and equals `decay` at offset + scale.
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

  // Factor in [0, 1]; never increases with age. 0 if the result underflows. A negative age (a date
  // in the future) counts as 0.
  double at(seconds age) const;
  double between(UnixSeconds published, UnixSeconds now) const { return at(now - published); }
  // An age from which on the factor is below `factor`, at most a few seconds above the smallest
  // such age. REQUIRES: factor ≥ 0. For factors of 1 and more: the age at which the decay begins.
  seconds age_below(double factor) const;

 private:
  double offset_s_;
  double two_sigma_squared_;  // s²
};

}  // namespace freshet::feed
