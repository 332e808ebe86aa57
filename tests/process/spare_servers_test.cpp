#include "fcgi/process/spare_servers.h"

#include <catch2/catch.hpp>
#include <vector>

namespace freshet {
namespace {

SpareServerLimits make_limits(const char* pm, int start, int min_spare, int max_spare, std::size_t children) {
  PoolSettings pool;
  pool.pm_mode = pm;
  pool.start_servers = start;
  pool.min_spare_servers = min_spare;
  pool.max_spare_servers = max_spare;
  return spare_server_limits(pool, children);
}

TEST_CASE("a limit of 0 stands for PHP-FPM's default", "[process]") {
  const SpareServerLimits limits = make_limits("dynamic", 0, 2, 7, 20);
  CHECK(limits.mode == PoolMode::kDynamic);
  CHECK(limits.start == 4);  // 2 + (7 - 2) / 2
  CHECK(make_limits("dynamic", 5, 2, 7, 20).start == 5);
  CHECK(make_limits("dynamic", 0, 1, 0, 8).max_spare == 8);
  CHECK(make_limits("static", 0, 1, 0, 8).mode == PoolMode::kStatic);
  CHECK(make_limits("ondemand", 0, 1, 0, 8).mode == PoolMode::kOndemand);
}

TEST_CASE("limits are reduced to the number of workers when that follows from the cores", "[process]") {
  const SpareServerLimits limits = make_limits("dynamic", 6, 4, 8, 2);
  CHECK(limits.max_spare == 2);
  CHECK(limits.min_spare == 2);
  CHECK(limits.start == 2);
}

TEST_CASE("a generation starts with what its mode says, and at least as many workers as the previous one had",
          "[process]") {
  CHECK(initial_worker_count(make_limits("static", 0, 1, 0, 8), 0) == 8);
  CHECK(initial_worker_count(make_limits("static", 0, 1, 0, 8), 3) == 8);
  CHECK(initial_worker_count(make_limits("dynamic", 3, 1, 5, 8), 0) == 3);
  CHECK(initial_worker_count(make_limits("dynamic", 3, 1, 5, 8), 6) == 6);
  CHECK(initial_worker_count(make_limits("dynamic", 3, 1, 5, 8), 20) == 8);
  CHECK(initial_worker_count(make_limits("ondemand", 3, 1, 5, 8), 0) == 1);
  CHECK(initial_worker_count(make_limits("ondemand", 3, 1, 5, 8), 4) == 4);
}

TEST_CASE("while idle workers are missing, forks double each second up to 32", "[process]") {
  const SpareServerLimits limits = make_limits("dynamic", 1, 200, 400, 500);
  SpareServerPolicy policy;
  std::vector<std::size_t> forks;
  for (std::size_t target = 1; forks.size() < 8;) {
    forks.push_back(policy.adjust_dynamic(limits, {.target = target, .idle = 0, .starting = 0}).forks);
    target += forks.back();
  }
  CHECK(forks == std::vector<std::size_t>{1, 2, 4, 8, 16, 32, 32, 32});
  CHECK(policy.adjust_dynamic(limits, {.target = 250, .idle = 200}).forks == 0);
  CHECK(policy.adjust_dynamic(limits, {.target = 250, .idle = 150}).forks == 1);  // starts from 1 again
}

TEST_CASE("forks are limited by need and pm.max_children, and starting workers count as idle", "[process]") {
  const SpareServerLimits limits = make_limits("dynamic", 1, 3, 5, 8);
  SpareServerPolicy policy;
  CHECK(policy.adjust_dynamic(limits, {.target = 2, .idle = 0}).forks == 1);
  CHECK(policy.adjust_dynamic(limits, {.target = 3, .idle = 0, .starting = 1}).forks == 2);
  CHECK(policy.adjust_dynamic(limits, {.target = 5, .idle = 2, .starting = 0}).forks == 1);
  CHECK(policy.adjust_dynamic(limits, {.target = 6, .idle = 0, .starting = 3}).forks == 0);
  CHECK(policy.adjust_dynamic(limits, {.target = 7, .idle = 0}).forks == 1);
}

TEST_CASE("one surplus idle worker a second is retired", "[process]") {
  const SpareServerLimits limits = make_limits("dynamic", 1, 1, 3, 8);
  SpareServerPolicy policy;
  CHECK(policy.adjust_dynamic(limits, {.target = 8, .idle = 4}).retire_one);
  CHECK_FALSE(policy.adjust_dynamic(limits, {.target = 8, .idle = 3}).retire_one);
  CHECK_FALSE(policy.adjust_dynamic(limits, {.target = 8, .idle = 3, .starting = 3}).retire_one);
}

TEST_CASE("reaching pm.max_children is reported once until there is room again", "[process]") {
  SpareServerPolicy policy;
  for (const char* pm : {"dynamic", "ondemand"}) {
    const SpareServerLimits limits = make_limits(pm, 1, 1, 2, 2);
    const auto evaluate = [&](const WorkerCounts& counts) {
      return limits.mode == PoolMode::kDynamic ? policy.adjust_dynamic(limits, counts)
                                               : policy.on_pending_connection(limits, counts);
    };
    const WorkerCounts full{.target = 2, .idle = 0}, idle{.target = 2, .idle = 1},
        not_full{.target = 1, .idle = 0};
    CHECK(evaluate(full).reached_limit);
    CHECK(evaluate(full).forks == 0);
    CHECK_FALSE(evaluate(full).reached_limit);
    CHECK_FALSE(evaluate(idle).reached_limit);
    CHECK_FALSE(evaluate(full).reached_limit);
    CHECK_FALSE(evaluate(not_full).reached_limit);
    CHECK(evaluate(full).reached_limit);
    CHECK(evaluate(not_full).forks == 1);
  }
}

TEST_CASE("a waiting connection starts one worker if none is idle or starting", "[process]") {
  const SpareServerLimits limits = make_limits("ondemand", 0, 1, 0, 4);
  SpareServerPolicy policy;
  CHECK(policy.on_pending_connection(limits, {}).forks == 1);
  CHECK(policy.on_pending_connection(limits, {.target = 1, .idle = 0, .starting = 1}).forks == 0);
  CHECK(policy.on_pending_connection(limits, {.target = 1, .idle = 1}).forks == 0);
  CHECK(policy.on_pending_connection(limits, {.target = 3, .idle = 0}).forks == 1);
  CHECK(policy.on_pending_connection(limits, {.target = 4, .idle = 0}).forks == 0);
}

}  // namespace
}  // namespace freshet
