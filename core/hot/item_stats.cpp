#include "core/hot/item_stats.h"

#include <algorithm>

#include "core/hot/engagement.h"
#include "core/hot/views.h"

namespace freshet::hot {

EngagementTerms engagement_terms(const ItemStats& stats, const EngagementSettings& settings) {
  const EngagementCounts counts{stats.pv, stats.uv, stats.dwell_sum_ms, stats.dwell_count};
  const seconds age = std::max(seconds(0), stats.now - stats.first);
  EngagementTerms terms;
  terms.avg_dwell_ms = hot::plain_mean_dwell(counts);
  terms.age_seconds = static_cast<double>(age.count());
  terms.base = hot::base_score(counts, settings);
  terms.from_pv = settings.pv_weight * static_cast<double>(stats.pv);
  terms.from_uv = settings.uv_weight * static_cast<double>(stats.uv);
  terms.from_dwell = std::max(0.0, terms.base - terms.from_pv - terms.from_uv);
  terms.decay = hot::decay(age, settings.half_life);
  terms.score = terms.base * terms.decay;
  return terms;
}

std::optional<double> click_through(const ItemStats& stats) {
  if (stats.shown <= 0) return std::nullopt;
  return static_cast<double>(stats.pv) / static_cast<double>(stats.shown);
}

ViewsTerms views_terms(const ItemStats& stats, const ViewsSettings& settings) {
  ViewsTerms terms;
  terms.hours = hot::hours_since(stats.first, stats.now);
  terms.divisor = hot::power_law(terms.hours, settings);
  terms.current = stats.views_total / terms.divisor;
  return terms;
}

}  // namespace freshet::hot
