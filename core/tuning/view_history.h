// How often items were viewed in the last days, as the recorder stores it. Input of the tuner.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::tuning {

// Views of an item within a period. They count as if all were in its middle.
struct ViewCount {
  std::uint32_t item = 0;  // index into ViewHistory::published
  UnixSeconds from;
  seconds length{0};
  std::int64_t views = 0;
};

struct ViewHistory {
  std::vector<ViewCount> counts;  // in any order; those without views or after `until` are ignored
  std::vector<std::optional<UnixSeconds>> published;  // by item; nullopt: at its first view
  UnixSeconds until;                                  // the counts are complete up to here
  std::vector<std::string> ids;                       // by item; may be empty
};

// Reads the counts of views from the recorder's database, and when their items were published.
// Includes items without a view if they were published in the last `period`. One snapshot; does not
// block writers. Errors: those of Database (database.h); the file must exist.
Result<ViewHistory> read_view_history(const std::string& database, UnixSeconds now, seconds period);

}  // namespace freshet::tuning
