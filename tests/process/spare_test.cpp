#include "fcgi/process/spare.h"

#include <catch2/catch.hpp>
#include <vector>

namespace freshet {
namespace {

SpareLimits limits_of(const char* pm, int start, int min_spare, int max_spare, std::size_t children) {
  PoolSettings pool;
  pool.pm_mode = pm;
  pool.start_servers = start;
  pool.min_spare_servers = min_spare;
  pool.max_spare_servers = max_spare;
  return spare_limits(pool, children);
}

TEST_CASE("a limit of 0 stands for what PHP-FPM would take", "[process]") {
  const SpareLimits limits = limits_of("dynamic", 0, 2, 7, 20);
  CHECK(limits.mode == PoolMode::kDynamic);
  CHECK(limits.start == 4);  // 2 + (7 - 2) / 2
  CHECK(limits_of("dynamic", 5, 2, 7, 20).start == 5);
  CHECK(limits_of("dynamic", 0, 1, 0, 8).max_spare == 8);
  CHECK(limits_of("static", 0, 1, 0, 8).mode == PoolMode::kStatic);
  CHECK(limits_of("ondemand", 0, 1, 0, 8).mode == PoolMode::kOndemand);
}

TEST_CASE("limits above the number of workers are cut to it when that follows from the cores", "[process]") {
  const SpareLimits limits = limits_of("dynamic", 6, 4, 8, 2);
  CHECK(limits.max_spare == 2);
  CHECK(limits.min_spare == 2);
  CHECK(limits.start == 2);
}

TEST_CASE("a generation begins with what its mode says, and not with less than the one before had",
          "[process]") {
  CHECK(first_workers(limits_of("static", 0, 1, 0, 8), 0) == 8);
  CHECK(first_workers(limits_of("static", 0, 1, 0, 8), 3) == 8);
  CHECK(first_workers(limits_of("dynamic", 3, 1, 5, 8), 0) == 3);
  CHECK(first_workers(limits_of("dynamic", 3, 1, 5, 8), 6) == 6);
  CHECK(first_workers(limits_of("dynamic", 3, 1, 5, 8), 20) == 8);
  CHECK(first_workers(limits_of("ondemand", 3, 1, 5, 8), 0) == 1);
  CHECK(first_workers(limits_of("ondemand", 3, 1, 5, 8), 4) == 4);
}

TEST_CASE("as long as idle workers are missing, forks double each second up to 32", "[process]") {
  const SpareLimits limits = limits_of("dynamic", 1, 200, 400, 500);
  SpareRule rule;
  std::vector<std::size_t> forks;
  for (std::size_t wanted = 1; forks.size() < 8;) {
    forks.push_back(rule.look(limits, {.wanted = wanted, .idle = 0, .coming = 0}).fork);
    wanted += forks.back();
  }
  CHECK(forks == std::vector<std::size_t>{1, 2, 4, 8, 16, 32, 32, 32});
  CHECK(rule.look(limits, {.wanted = 250, .idle = 200}).fork == 0);
  CHECK(rule.look(limits, {.wanted = 250, .idle = 150}).fork == 1);  // from the beginning
}

TEST_CASE("no more are forked than are missing or allowed, and those that start count as idle", "[process]") {
  const SpareLimits limits = limits_of("dynamic", 1, 3, 5, 8);
  SpareRule rule;
  CHECK(rule.look(limits, {.wanted = 2, .idle = 0}).fork == 1);
  CHECK(rule.look(limits, {.wanted = 3, .idle = 0, .coming = 1}).fork == 2);
  CHECK(rule.look(limits, {.wanted = 5, .idle = 2, .coming = 0}).fork == 1);
  CHECK(rule.look(limits, {.wanted = 6, .idle = 0, .coming = 3}).fork == 0);
  CHECK(rule.look(limits, {.wanted = 7, .idle = 0}).fork == 1);
}

TEST_CASE("one worker a second is sent away while more than the most are idle", "[process]") {
  const SpareLimits limits = limits_of("dynamic", 1, 1, 3, 8);
  SpareRule rule;
  CHECK(rule.look(limits, {.wanted = 8, .idle = 4}).retire_one);
  CHECK_FALSE(rule.look(limits, {.wanted = 8, .idle = 3}).retire_one);
  CHECK_FALSE(rule.look(limits, {.wanted = 8, .idle = 3, .coming = 3}).retire_one);
}

TEST_CASE("a full pool is counted once until it has room again", "[process]") {
  SpareRule rule;
  for (const char* pm : {"dynamic", "ondemand"}) {
    const SpareLimits limits = limits_of(pm, 1, 1, 2, 2);
    const auto judge = [&](const Census& census) {
      return limits.mode == PoolMode::kDynamic ? rule.look(limits, census)
                                               : rule.connection_waits(limits, census);
    };
    const Census full{.wanted = 2, .idle = 0}, idle{.wanted = 2, .idle = 1}, room{.wanted = 1, .idle = 0};
    CHECK(judge(full).hit_limit);
    CHECK(judge(full).fork == 0);
    CHECK_FALSE(judge(full).hit_limit);
    CHECK_FALSE(judge(idle).hit_limit);
    CHECK_FALSE(judge(full).hit_limit);
    CHECK_FALSE(judge(room).hit_limit);
    CHECK(judge(full).hit_limit);
    CHECK(judge(room).fork == 1);
  }
}

TEST_CASE("a connection that waits starts one worker, when none is idle and none is about to be",
          "[process]") {
  const SpareLimits limits = limits_of("ondemand", 0, 1, 0, 4);
  SpareRule rule;
  CHECK(rule.connection_waits(limits, {}).fork == 1);
  CHECK(rule.connection_waits(limits, {.wanted = 1, .idle = 0, .coming = 1}).fork == 0);
  CHECK(rule.connection_waits(limits, {.wanted = 1, .idle = 1}).fork == 0);
  CHECK(rule.connection_waits(limits, {.wanted = 3, .idle = 0}).fork == 1);
  CHECK(rule.connection_waits(limits, {.wanted = 4, .idle = 0}).fork == 0);
}

}  // namespace
}  // namespace freshet
