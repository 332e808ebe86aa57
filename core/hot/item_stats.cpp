#include "core/hot/item_stats.h"

#include <algorithm>

#include "core/hot/engagement.h"
#include "core/hot/views.h"

namespace freshet::hot {
namespace {

EngagementCounts engagement_counts(const ItemStats& stats) {
  return {stats.pv, stats.uv, stats.dwell_sum_ms, stats.dwell_count};
}

}  // namespace

ScoreTerms score_terms(const Model& model, const ItemStats& stats, const Settings& settings) {
  const seconds age = std::max(seconds(0), stats.now - stats.decay_start);
  const double base = model.base(engagement_counts(stats), settings);
  const double decay_factor = decay(age, model.half_life(settings));
  return {static_cast<double>(age.count()), base, decay_factor, base * decay_factor};
}

TrendingTerms trending_terms(const ItemStats& stats, const Settings& settings) {
  TrendingTerms terms;
  terms.half_life = settings.trending.half_life;
  terms.views = settings.views.from_track ? stats.views_pv : stats.pv + stats.views_pv;
  const auto index = trending_index(terms.half_life);
  if (!stats.trend || !index) return terms;
  terms.score = score_at(stats.trend->at(*index), stats.now, terms.half_life);
  terms.median_age =
      median_age(*stats.trend, static_cast<double>(terms.views) + settings.trending.birth_views, stats.now);
  return terms;
}

double computed_score(const Model& model, const ItemStats& stats, const Settings& settings) {
  return model.base != nullptr ? score_terms(model, stats, settings).score
                               : trending_terms(stats, settings).score;
}

EngagementTerms engagement_terms(const ItemStats& stats, const EngagementSettings& settings) {
  const EngagementCounts counts = engagement_counts(stats);
  const double from_pv = settings.pv_weight * static_cast<double>(stats.pv);
  const double from_uv = settings.uv_weight * static_cast<double>(stats.uv);
  const double from_dwell = std::max(0.0, base_score(counts, settings) - from_pv - from_uv);
  return {plain_mean_dwell(counts), from_pv, from_uv, from_dwell};
}

std::optional<double> click_through_rate(const ItemStats& stats) {
  if (stats.impressions <= 0) return std::nullopt;
  return static_cast<double>(stats.pv) / static_cast<double>(stats.impressions);
}

ViewsTerms views_terms(const ItemStats& stats, const ViewsSettings& settings) {
  ViewsTerms terms;
  terms.hours = hot::hours_since(stats.decay_start, stats.now);
  terms.divisor = hot::power_law(terms.hours, settings);
  terms.current = stats.views_total / terms.divisor;
  return terms;
}

}  // namespace freshet::hot
