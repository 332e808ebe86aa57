#include "fcgi/process/recycle.h"

#include <catch2/catch.hpp>
#include <vector>

namespace freshet {
namespace {

using namespace std::chrono_literals;

TEST_CASE("pm.max_requests limits a worker's requests, varied by a tenth", "[process]") {
  PoolSettings pool;
  CHECK_FALSE(RecyclePolicy(pool, 1.0, {}).exceeds_max_requests(UINT64_MAX - 1));
  pool.max_requests = 100;
  CHECK_FALSE(RecyclePolicy(pool, 0.9, {}).exceeds_max_requests(89));
  CHECK(RecyclePolicy(pool, 0.9, {}).exceeds_max_requests(90));
  CHECK_FALSE(RecyclePolicy(pool, 1.1, {}).exceeds_max_requests(109));
  CHECK(RecyclePolicy(pool, 1.1, {}).exceeds_max_requests(111));
}

TEST_CASE("pm.max_rss limits a worker's memory, varied by a tenth", "[process]") {
  PoolSettings pool;
  const SteadyTime later{1h};
  CHECK_FALSE(RecyclePolicy(pool, 1.0, {}).exceeds_max_rss(SIZE_MAX, later));
  pool.max_rss = 1000;
  CHECK_FALSE(RecyclePolicy(pool, 0.9, {}).exceeds_max_rss(900, later));
  CHECK(RecyclePolicy(pool, 0.9, {}).exceeds_max_rss(901, later));
  CHECK_FALSE(RecyclePolicy(pool, 1.1, {}).exceeds_max_rss(1100, later));
  CHECK(RecyclePolicy(pool, 1.1, {}).exceeds_max_rss(1101, later));
}

TEST_CASE("a memory limit below a worker's base usage does not cause a restart loop", "[process]") {
  PoolSettings pool;
  pool.max_rss = 1;
  const SteadyTime started{1h};
  const RecyclePolicy policy(pool, 1.0, started);
  CHECK_FALSE(policy.exceeds_max_rss(SIZE_MAX, started));
  CHECK_FALSE(policy.exceeds_max_rss(SIZE_MAX, started + 9999ms));
  CHECK(policy.exceeds_max_rss(SIZE_MAX, started + 10s));
}

TEST_CASE("random_jitter() varies within a tenth", "[process]") {
  double lowest = 2, highest = 0;
  for (int i = 0; i < 1000; ++i) {
    const double factor = random_jitter();
    lowest = std::min(lowest, factor);
    highest = std::max(highest, factor);
  }
  CHECK(lowest >= 0.9);
  CHECK(highest <= 1.1);
  CHECK(highest - lowest > 0.1);
}

TEST_CASE("resident_bytes() is this process's resident memory", "[process]") {
  const std::size_t before = resident_bytes();
  CHECK(before > 100'000);
  const std::vector<char> allocated(64'000'000, 1);
  CHECK(resident_bytes() > before + 50'000'000);
  CHECK(resident_bytes() < before + 80'000'000);
  CHECK(allocated.back() == 1);
}

}  // namespace
}  // namespace freshet
