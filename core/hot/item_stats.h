// Why an article stands where it stands: every term of both scores, such that the terms give the
// served score.
#pragma once

#include <optional>

#include "core/config/settings.h"
#include "core/hot/ports.h"

namespace freshet::hot {

// Of a model with a base.
struct ScoreTerms {
  double age_seconds = 0;
  double base = 0;  // points
  double decay = 0;
  double score = 0;  // base · decay
};
ScoreTerms score_terms(const Model& model, const ItemStats& stats, const Settings& settings);

struct EngagementTerms {
  double avg_dwell_ms = 0;
  double from_pv = 0, from_uv = 0, from_dwell = 0;  // points: their sum is the base
};
EngagementTerms engagement_terms(const ItemStats& stats, const EngagementSettings& settings);

// Page views for each time it was on a page of a feed; nullopt when it was on none. Page views that
// came from elsewhere count too, so it may be above 1.
std::optional<double> click_through_rate(const ItemStats& stats);

struct ViewsTerms {
  double hours = 0;
  double divisor = 0;  // (hours + base)^gamma
  double current = 0;  // total / divisor: mode = current
};
ViewsTerms views_terms(const ItemStats& stats, const ViewsSettings& settings);

}  // namespace freshet::hot
