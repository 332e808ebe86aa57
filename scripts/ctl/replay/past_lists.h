// freshetctl replay --at: the hot list as it stood at a moment of a log, computed from the events
// alone, by the same formulas as the service (core/hot). Where the service estimates visitors by
// HyperLogLog, this counts them. Pure.
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
  std::int64_t pv = 0;  // counted so far, of counters that have not expired
  std::int64_t uv = 0;  // engagement: visitors; views: readers of the last day it was viewed
};

// Highest score first, ties by id, the greater bytes first; at most `limit`. Events after `at` do
// not count. O(events · log).

// One PV per session and window, the session's greatest dwell, exponential decay.
std::vector<PastScore> engagement_list_at(const EventLog& log, UnixSeconds at, const Settings& settings,
                                     std::size_t limit);

enum class PastMode { kAccumulate, kCurrent };
// One view per reader and window, power-law decay at the view (accumulate) or at `at` (current).
std::vector<PastScore> views_list_at(const EventLog& log, UnixSeconds at, PastMode mode, const Settings& settings,
                                std::size_t limit);

}  // namespace freshet::ctl
