// freshetctl check: verifies the invariants of a running instance's Redis and sweeps stale members.
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
  bool strict = false;  // suspicious and stale findings fail, too
  bool quiet = false;
  bool json = false;
  std::optional<std::int64_t> expect_pv;     // expected sum of all page views
  std::optional<std::int64_t> expect_views;  // expected sum of all counted views
};

struct CheckTotals {
  std::int64_t keys = 0;   // with our key prefix
  std::int64_t items = 0;  // with counters
  std::int64_t pv = 0;
  std::int64_t views = 0;
};

// Scans the whole keyspace in pipelines of at most 500 commands while the service keeps running.
// Concurrent changes are never reported: each finding rests on one atomic read or is read again.
// O(keys).
Result<CheckTotals> check_redis(redis::BlockingRedis& redis, const Settings& settings,
                                const CheckOptions& options, Findings& findings);

// Returns the exit status: 1 when violations remain. Errors: Redis is unreachable.
Result<int> run_check(const CheckOptions& options, const Target& target);

}  // namespace freshet::ctl
