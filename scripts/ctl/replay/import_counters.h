// freshetctl import-counters: adds the counts of another view counter to articles' engagement
// counters, directly in Redis.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct CounterLine {
  std::size_t line = 0;  // in the file, from 1
  ItemId item;
  std::int64_t pv = 0, uv = 0;
  std::optional<UnixSeconds> first;
};

struct RejectedCounterLine {
  std::size_t line = 0;
  std::string id;  // empty if the line has no valid id
  std::string reason;
};

struct CounterFile {
  std::vector<CounterLine> lines;
  std::vector<RejectedCounterLine> rejected;
};

// Each line is {"id":…,"pv":1…10¹²,"uv"?:0…10⁸ (at most pv),"first"?: a date}. An id that occurs
// again is rejected. Ignores empty lines and unknown members. Pure.
CounterFile parse_counters(std::string_view ndjson);

// The number of lines whose `first` is after `now`. They count as first read now.
std::int64_t count_future_dates(const std::vector<CounterLine>& lines, UnixSeconds now);

// Adds the counts to page views and visitors, and ranks the articles. `first` replaces a date that
// only clients named; an item's own date, and one that the site reported, stay. What an earlier
// import added to an article is replaced, not added to, so the same lines can be imported again;
// also after an error or an interruption. Returns the lines that were not imported: of removed
// items, and of articles that are unknown and have no `first`.
//
// Visitors become artificial members of the article's HyperLogLog: exact within its error of 0.8 %,
// and readers who come back count once more. An import with fewer visitors cannot remove any.
Result<std::vector<RejectedCounterLine>> import_counters(redis::BlockingRedis& redis,
                                                         const Settings& settings, const redis::Keys& keys,
                                                         const std::vector<CounterLine>& lines);

struct ImportCountersOptions {
  std::string file;  // "-": stdin
  bool json = false;
};
// Returns the exit status: 1 when a line was rejected. Errors: no file; Redis.
Result<int> run_import_counters(const ImportCountersOptions& options, const Target& target);

}  // namespace freshet::ctl
