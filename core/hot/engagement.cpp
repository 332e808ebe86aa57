#include "core/hot/engagement.h"

#include <algorithm>
#include <cmath>

namespace freshet::hot {
namespace {

double half_lives(seconds span, seconds half_life) {
  return static_cast<double>(span.count()) / static_cast<double>(half_life.count());
}

}  // namespace

double decay(seconds age, seconds half_life) {
  return std::exp2(-half_lives(std::max(age, seconds{0}), half_life));
}

double rank_key(double base, UnixSeconds decay_start, seconds half_life) {
  return std::log2(base) + half_lives(decay_start.time_since_epoch(), half_life);
}

double score_at(double key, UnixSeconds now, seconds half_life) {
  return std::exp2(key - half_lives(now.time_since_epoch(), half_life));
}

}  // namespace freshet::hot
