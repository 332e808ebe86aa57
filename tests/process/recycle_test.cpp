#include "fcgi/process/recycle.h"

#include <catch2/catch.hpp>
#include <vector>

namespace freshet {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a worker has served enough after pm.max_requests, a tenth more or less", "[process]") {
  PoolSettings pool;
  CHECK_FALSE(RecyclePolicy(pool, 1.0, {}).exceeds_max_requests(UINT64_MAX - 1));
  pool.max_requests = 100;
  CHECK_FALSE(RecyclePolicy(pool, 0.9, {}).exceeds_max_requests(89));
  CHECK(RecyclePolicy(pool, 0.9, {}).exceeds_max_requests(90));
  CHECK_FALSE(RecyclePolicy(pool, 1.1, {}).exceeds_max_requests(109));
  CHECK(RecyclePolicy(pool, 1.1, {}).exceeds_max_requests(111));
}

TEST_CASE("a worker has grown too much beyond pm.max_rss, a tenth more or less", "[process]") {
  PoolSettings pool;
  const SteadyTime later{1h};
  CHECK_FALSE(RecyclePolicy(pool, 1.0, {}).exceeds_max_rss(SIZE_MAX, later));
  pool.max_rss = 1000;
  CHECK_FALSE(RecyclePolicy(pool, 0.9, {}).exceeds_max_rss(900, later));
  CHECK(RecyclePolicy(pool, 0.9, {}).exceeds_max_rss(901, later));
  CHECK_FALSE(RecyclePolicy(pool, 1.1, {}).exceeds_max_rss(1100, later));
  CHECK(RecyclePolicy(pool, 1.1, {}).exceeds_max_rss(1101, later));
}

TEST_CASE("a limit below what every worker needs makes no storm of replacements", "[process]") {
  PoolSettings pool;
  pool.max_rss = 1;
  const SteadyTime started{1h};
  const RecyclePolicy rule(pool, 1.0, started);
  CHECK_FALSE(rule.exceeds_max_rss(SIZE_MAX, started));
  CHECK_FALSE(rule.exceeds_max_rss(SIZE_MAX, started + 9999ms));
  CHECK(rule.exceeds_max_rss(SIZE_MAX, started + 10s));
}

TEST_CASE("each worker draws another factor within a tenth", "[process]") {
  double least = 2, most = 0;
  for (int i = 0; i < 1000; ++i) {
    const double factor = random_jitter();
    least = std::min(least, factor);
    most = std::max(most, factor);
  }
  CHECK(least >= 0.9);
  CHECK(most <= 1.1);
  CHECK(most - least > 0.1);
}

TEST_CASE("resident memory is what this process holds", "[process]") {
  const std::size_t before = resident_bytes();
  CHECK(before > 100'000);
  const std::vector<char> held(64'000'000, 1);
  CHECK(resident_bytes() > before + 50'000'000);
  CHECK(resident_bytes() < before + 80'000'000);
  CHECK(held.back() == 1);
}

}  // namespace
}  // namespace freshet
