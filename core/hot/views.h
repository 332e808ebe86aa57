// Views: an increment of 1 per view and 2 more for the day's first one of a visitor,
// divided by (hours + 2)^1.5.
//
// `accumulate` adds increments that were divided when they came; `current` divides the whole sum by
// the age at reading.
#pragma once

#include "core/base/time.h"
#include "core/config/settings.h"

namespace freshet::hot {

// What a view is worth before the division: pv_w + uv_w·is_uv.
double view_increment(bool first_today, const ViewsSettings& settings);

// Hours since publication, ≥ 0: a date ahead of `now` counts as now.
double hours_since(UnixSeconds published, UnixSeconds now);

// The divisor: (hours + base)^gamma. Grows with `hours`. REQUIRES: hours ≥ 0.
double power_law(double hours, const ViewsSettings& settings);

// total / (hours since publication + base)^gamma: one view's part of `accumulate`, or all views' in
// `current`.
double view_score(double total, UnixSeconds published, UnixSeconds now, const ViewsSettings& settings);

}  // namespace freshet::hot
