// Engagement model: base = w_pv·pv + w_uv·uv + w_dwell·mean dwell, halved with every half-life of
// age.
//
// Scores fall as time passes, so a stored score would be stale at once. Ranks store rank_key()
// instead, which orders articles exactly as their scores do at any later time: log2(score) =
// log2(base) − (now − decay_start)/half_life, and only the part without `now` differs between
// articles.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/base/time.h"
#include "core/config/settings.h"

namespace freshet::hot {

struct EngagementCounts {
  std::int64_t pv = 0;
  std::int64_t uv = 0;
  std::int64_t dwell_sum_ms = 0;
  std::int64_t dwell_count = 0;
};

// Mean dwell in ms, shrunk towards `prior_ms` as if `prior_views` additional readers had stayed
// that long, so that one long view does not outweigh many readers: (sum + m·prior)/(count + m). m =
// 0 gives the plain mean (0 without readers).
inline double shrunk_mean_dwell(const EngagementCounts& counts, double prior_views, double prior_ms) {
  const double weight = static_cast<double>(counts.dwell_count) + prior_views;
  if (weight <= 0.0) return 0.0;
  return (static_cast<double>(counts.dwell_sum_ms) + prior_views * prior_ms) / weight;
}
inline double plain_mean_dwell(const EngagementCounts& counts) { return shrunk_mean_dwell(counts, 0.0, 0.0); }

// Score before decay, in points. ≥ 0 for counts and weights ≥ 0.
inline double base_score(const EngagementCounts& counts, const EngagementSettings& settings) {
  return settings.pv_weight * static_cast<double>(counts.pv) +
         settings.uv_weight * static_cast<double>(counts.uv) +
         settings.dwell_weight *
             shrunk_mean_dwell(counts, settings.dwell_prior_views, settings.dwell_prior_ms);
}

inline double half_lives(seconds span, seconds half_life) {
  return static_cast<double>(span.count()) / static_cast<double>(half_life.count());
}

// 2^(−age/half_life), in (0, 1]. A negative age (clock skew) counts as 0. REQUIRES: half_life > 0.
inline double decay(seconds age, seconds half_life) {
  return std::exp2(-half_lives(std::max(age, seconds{0}), half_life));
}

// Time-independent sort key: log2(base) + decay_start/half_life. Stored in hot:rank. −infinity for
// a base of 0, which is never stored. The last bit is worth 2.5e-12 of the score with a half-life
// of a day and 1e-10 with half an hour.
inline double rank_key(double base, UnixSeconds decay_start, seconds half_life) {
  return std::log2(base) + half_lives(decay_start.time_since_epoch(), half_life);
}

// Score of a rank key at `now`: 2^(key − now/half_life).
inline double score_at(double key, UnixSeconds now, seconds half_life) {
  return std::exp2(key - half_lives(now.time_since_epoch(), half_life));
}

}  // namespace freshet::hot
