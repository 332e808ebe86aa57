// freshetctl check: what must hold in a running instance's Redis, and what may be swept away.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/config/settings.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/check/findings.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct CheckOptions {
  bool sweep = false;
  bool strict = false;  // odd and stale things count as violations
  bool quiet = false;
  bool json = false;
  std::optional<std::int64_t> expect_pv;     // the sum of all page views
  std::optional<std::int64_t> expect_views;  // the sum of all counted views
};

struct CheckTotals {
  std::int64_t keys = 0;   // ours
  std::int64_t items = 0;  // with counters
  std::int64_t pv = 0;
  std::int64_t views = 0;
};

// Goes through the whole keyspace with SCAN, in pipelines of at most 500 commands; serving goes on.
// What changes while it looks is never reported: each statement is about one atomic read, or is
// read again. O(keys).
Result<CheckTotals> check_redis(redis::BlockingRedis& redis, const Settings& settings, const CheckOptions& options,
                         Findings& findings);

// The exit status: 1 when violations remain. Errors: Redis away.
Result<int> run_check(const CheckOptions& options, const Target& target);

}  // namespace freshet::ctl
