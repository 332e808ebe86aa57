// A hot list as it was at a past moment, from the counts of views that the recorder stores.
#pragma once

#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/tuning/hot_scores.h"

namespace freshet::tuning {

struct PastListQuery {
  HotCandidate list;
  HotValues values;  // the settings that formulas read besides list.parameter
  UnixSeconds at;
  seconds window{0};  // maximum age at that moment; 0: no limit
};

struct PastEntry {
  std::string item;
  double score = 0;
  UnixSeconds published;  // unknown dates: the first view of the last 14 days
};

// All items that the list ranked, best first; of equal ones the newest first. Counts are known for
// 14 days, by five minutes in the last two days and by hours before; a count is as of the middle of
// its period. Reads the whole table of counts: about 2 s for the most that is kept. Blocking.
// Errors: those of Database (database.h).
Result<std::vector<PastEntry>> past_list(const std::string& database, const PastListQuery& query);

}  // namespace freshet::tuning
