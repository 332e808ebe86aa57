// Explains an article's scores: the terms of each model's score.
#pragma once

#include <cstdint>
#include <optional>

#include "core/config/settings.h"
#include "core/hot/ports.h"

namespace freshet::hot {

// For models with a base score.
struct ScoreTerms {
  double age_seconds = 0;
  double base = 0;  // points
  double decay = 0;
  double score = 0;  // base · decay
};
ScoreTerms score_terms(const Model& model, const ItemStats& stats, const Settings& settings);

struct TrendingTerms {
  double score = 0;  // 0: no views
  seconds half_life{0};
  std::int64_t views = 0;  // counted
  seconds median_age{0};   // about half of them are younger, within the limits of hot::median_age()
};
TrendingTerms trending_terms(const ItemStats& stats, const Settings& settings);

// The score of a computed model. 0 if the article has none.
double computed_score(const Model& model, const ItemStats& stats, const Settings& settings);

struct EngagementTerms {
  double avg_dwell_ms = 0;
  double from_pv = 0, from_uv = 0, from_dwell = 0;  // in points; their sum is the base score
};
EngagementTerms engagement_terms(const ItemStats& stats, const EngagementSettings& settings);

// Page views per feed impression; nullopt without impressions. May exceed 1, since page views from
// elsewhere count too.
std::optional<double> click_through_rate(const ItemStats& stats);

struct ViewsTerms {
  double hours = 0;
  double divisor = 0;  // (hours + base)^gamma
  double current = 0;  // total / divisor: the score in mode = current
};
ViewsTerms views_terms(const ItemStats& stats, const ViewsSettings& settings);

}  // namespace freshet::hot
