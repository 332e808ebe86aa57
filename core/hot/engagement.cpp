#include "core/hot/engagement.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace freshet::hot {
namespace {

double half_lives(seconds span, seconds half_life) {
  return static_cast<double>(span.count()) / static_cast<double>(half_life.count());
}

}  // namespace

double plain_mean_dwell(const EngagementCounts& counts) { return shrunk_mean_dwell(counts, 0.0, 0.0); }

double shrunk_mean_dwell(const EngagementCounts& counts, double prior_views, double prior_ms) {
  const double weight = static_cast<double>(counts.dwell_count) + prior_views;
  if (weight <= 0.0) return 0.0;
  return (static_cast<double>(counts.dwell_sum_ms) + prior_views * prior_ms) / weight;
}

double base_score(const EngagementCounts& counts, const EngagementSettings& settings) {
  return settings.pv_weight * static_cast<double>(counts.pv) +
         settings.uv_weight * static_cast<double>(counts.uv) +
         settings.dwell_weight *
             shrunk_mean_dwell(counts, settings.dwell_prior_views, settings.dwell_prior_ms);
}

double decay(seconds age, seconds half_life) {
  return std::exp2(-half_lives(std::max(age, seconds{0}), half_life));
}

double rank_key(double base, UnixSeconds first, seconds half_life) {
  return std::log2(base) + half_lives(first.time_since_epoch(), half_life);
}

double score_at(double key, UnixSeconds now, seconds half_life) {
  return std::exp2(key - half_lives(now.time_since_epoch(), half_life));
}

std::string formula_argument(const EngagementSettings& settings) {
  std::string out;
  const auto half_life = static_cast<double>(settings.half_life.count());
  for (const double each : {settings.pv_weight, settings.uv_weight, settings.dwell_weight,
                            settings.dwell_prior_views, settings.dwell_prior_ms, half_life}) {
    std::array<char, 32> text;
    const auto end = std::to_chars(text.data(), text.data() + text.size(), each).ptr;
    out.append(out.empty() ? "" : " ").append(text.data(), end);
  }
  return out;
}

}  // namespace freshet::hot
