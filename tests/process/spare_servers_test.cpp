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

TEST_CASE("a limit of 0 stands for what PHP-FPM would take", "[process]") {
  const SpareServerLimits limits = make_limits("dynamic", 0, 2, 7, 20);
  CHECK(limits.mode == PoolMode::kDynamic);
  CHECK(limits.start == 4);  // 2 + (7 - 2) / 2
  CHECK(make_limits("dynamic", 5, 2, 7, 20).start == 5);
  CHECK(make_limits("dynamic", 0, 1, 0, 8).max_spare == 8);
  CHECK(make_limits("static", 0, 1, 0, 8).mode == PoolMode::kStatic);
  CHECK(make_limits("ondemand", 0, 1, 0, 8).mode == PoolMode::kOndemand);
}

TEST_CASE("limits above the number of workers are cut to it when that follows from the cores", "[process]") {
  const SpareServerLimits limits = make_limits("dynamic", 6, 4, 8, 2);
  CHECK(limits.max_spare == 2);
  CHECK(limits.min_spare == 2);
  CHECK(limits.start == 2);
}

TEST_CASE("a generation begins with what its mode says, and not with less than the one before had",
          "[process]") {
  CHECK(initial_worker_count(make_limits("static", 0, 1, 0, 8), 0) == 8);
  CHECK(initial_worker_count(make_limits("static", 0, 1, 0, 8), 3) == 8);
  CHECK(initial_worker_count(make_limits("dynamic", 3, 1, 5, 8), 0) == 3);
  CHECK(initial_worker_count(make_limits("dynamic", 3, 1, 5, 8), 6) == 6);
  CHECK(initial_worker_count(make_limits("dynamic", 3, 1, 5, 8), 20) == 8);
  CHECK(initial_worker_count(make_limits("ondemand", 3, 1, 5, 8), 0) == 1);
  CHECK(initial_worker_count(make_limits("ondemand", 3, 1, 5, 8), 4) == 4);
}

TEST_CASE("as long as idle workers are missing, forks double each second up to 32", "[process]") {
  const SpareServerLimits limits = make_limits("dynamic", 1, 200, 400, 500);
  SpareServerPolicy rule;
  std::vector<std::size_t> forks;
  for (std::size_t wanted = 1; forks.size() < 8;) {
    forks.push_back(rule.adjust_dynamic(limits, {.target = wanted, .idle = 0, .starting = 0}).forks);
    wanted += forks.back();
  }
  CHECK(forks == std::vector<std::size_t>{1, 2, 4, 8, 16, 32, 32, 32});
  CHECK(rule.adjust_dynamic(limits, {.target = 250, .idle = 200}).forks == 0);
  CHECK(rule.adjust_dynamic(limits, {.target = 250, .idle = 150}).forks == 1);  // from the beginning
}

TEST_CASE("no more are forked than are missing or allowed, and those that start count as idle", "[process]") {
  const SpareServerLimits limits = make_limits("dynamic", 1, 3, 5, 8);
  SpareServerPolicy rule;
  CHECK(rule.adjust_dynamic(limits, {.target = 2, .idle = 0}).forks == 1);
  CHECK(rule.adjust_dynamic(limits, {.target = 3, .idle = 0, .starting = 1}).forks == 2);
  CHECK(rule.adjust_dynamic(limits, {.target = 5, .idle = 2, .starting = 0}).forks == 1);
  CHECK(rule.adjust_dynamic(limits, {.target = 6, .idle = 0, .starting = 3}).forks == 0);
  CHECK(rule.adjust_dynamic(limits, {.target = 7, .idle = 0}).forks == 1);
}

TEST_CASE("one worker a second is sent away while more than the most are idle", "[process]") {
  const SpareServerLimits limits = make_limits("dynamic", 1, 1, 3, 8);
  SpareServerPolicy rule;
  CHECK(rule.adjust_dynamic(limits, {.target = 8, .idle = 4}).retire_one);
  CHECK_FALSE(rule.adjust_dynamic(limits, {.target = 8, .idle = 3}).retire_one);
  CHECK_FALSE(rule.adjust_dynamic(limits, {.target = 8, .idle = 3, .starting = 3}).retire_one);
}

TEST_CASE("a full pool is counted once until it has room again", "[process]") {
  SpareServerPolicy rule;
  for (const char* pm : {"dynamic", "ondemand"}) {
    const SpareServerLimits limits = make_limits(pm, 1, 1, 2, 2);
    const auto judge = [&](const WorkerCounts& census) {
      return limits.mode == PoolMode::kDynamic ? rule.adjust_dynamic(limits, census)
                                               : rule.on_pending_connection(limits, census);
    };
    const WorkerCounts full{.target = 2, .idle = 0}, idle{.target = 2, .idle = 1}, room{.target = 1, .idle = 0};
    CHECK(judge(full).reached_limit);
    CHECK(judge(full).forks == 0);
    CHECK_FALSE(judge(full).reached_limit);
    CHECK_FALSE(judge(idle).reached_limit);
    CHECK_FALSE(judge(full).reached_limit);
    CHECK_FALSE(judge(room).reached_limit);
    CHECK(judge(full).reached_limit);
    CHECK(judge(room).forks == 1);
  }
}

TEST_CASE("a connection that waits starts one worker, when none is idle and none is about to be",
          "[process]") {
  const SpareServerLimits limits = make_limits("ondemand", 0, 1, 0, 4);
  SpareServerPolicy rule;
  CHECK(rule.on_pending_connection(limits, {}).forks == 1);
  CHECK(rule.on_pending_connection(limits, {.target = 1, .idle = 0, .starting = 1}).forks == 0);
  CHECK(rule.on_pending_connection(limits, {.target = 1, .idle = 1}).forks == 0);
  CHECK(rule.on_pending_connection(limits, {.target = 3, .idle = 0}).forks == 1);
  CHECK(rule.on_pending_connection(limits, {.target = 4, .idle = 0}).forks == 0);
}

}  // namespace
}  // namespace freshet
