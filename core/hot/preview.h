// A hot list as other settings would order it: computed from today's counters, and nothing is
// written, cached or counted.
#pragma once

#include "core/config/settings.h"
#include "core/hot/hot_lists.h"
#include "core/hot/ports.h"

namespace freshet::hot {

inline constexpr std::size_t kMaxPreviewCandidates = 10'000;  // so many of today's highest are scored anew

// Of a model with a base: the list that `tried` would give, of the kPreviewed highest of today's; a
// round trip for each 500 and each 100 of them. Views: mode = current only, exactly what `tried`
// would give, at the cost of building it (what accumulate added was decayed when it came, so no
// setting changes it). `hot`, `items`, `tried` and `query` must live until the task has ended.
// Redis away: kUnavailable.
Task<Result<ServedList>> preview(HotStore& hot, items::CardCache& cards, const Settings& trial,
                                 const ListQuery& query, UnixSeconds now);

}  // namespace freshet::hot
