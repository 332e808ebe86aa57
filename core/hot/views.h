// Views model: each view adds 1, and a visitor's first view of the day 2 more, divided by (hours +
// 2)^1.5 (default weights).
//
// `accumulate` divides each increment when it is counted; `current` divides the whole sum by the
// article's age when it is read.
#pragma once

#include "core/base/time.h"
#include "core/config/settings.h"

namespace freshet::hot {

// Increment of a view before the division: pv_weight + uv_weight·first_today.
double view_increment(bool first_today, const ViewsSettings& settings);

// Hours since publication, ≥ 0: a date in the future counts as now.
double hours_since(UnixSeconds published, UnixSeconds now);

// The divisor: (hours + base)^gamma. Increases with `hours`. REQUIRES: hours ≥ 0.
double power_law(double hours, const ViewsSettings& settings);

// total / (hours since publication + base)^gamma: one view's share in `accumulate`, or that of all
// views in `current`.
double view_score(double total, UnixSeconds published, UnixSeconds now, const ViewsSettings& settings);

// The age in s at which a view that adds `total` has this score, the inverse of view_score().
// REQUIRES: total, score > 0.
double age_of_score(double total, double score, const ViewsSettings& settings);

}  // namespace freshet::hot
