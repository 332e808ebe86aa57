// freshetctl replay --at: computes the hot list at a moment of a log from its events alone, with
// the service's formulas (core/hot). Counts visitors exactly, where the service estimates them by
// HyperLogLog. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/settings.h"
#include "scripts/ctl/replay/event_log.h"

namespace freshet::ctl {

struct PastScore {
  std::string item;
  double score = 0;
  std::int64_t pv = 0;  // of counters that have not expired
  std::int64_t uv = 0;  // engagement: visitors; views: readers on the last day with views
};

// Highest score first, ties by descending id; at most `limit` entries. Ignores events after `at`.
// O(events · log).

// One PV per session and window, the session's maximum dwell, exponential decay.
std::vector<PastScore> engagement_list_at(const EventLog& log, UnixSeconds at, const Settings& settings,
                                          std::size_t limit);

enum class PastMode { kAccumulate, kCurrent };
// One view per reader and window. Power-law decay, applied at the view (accumulate) or at `at`
// (current).
std::vector<PastScore> views_list_at(const EventLog& log, UnixSeconds at, PastMode mode,
                                     const Settings& settings, std::size_t limit);

}  // namespace freshet::ctl
