#include "core/redis/memory_level.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

using namespace freshet;
using namespace freshet::redis;
using namespace std::chrono_literals;

namespace {

std::string info(std::int64_t used, std::int64_t max) {
  return "# Memory\r\nused_memory:" + std::to_string(used) +
         "\r\nused_memory_human:1M\r\nused_memory_peak:99\r\nmaxmemory:" + std::to_string(max) +
         "\r\nmaxmemory_policy:noeviction\r\n";
}

MemoryLevel after(const MemoryLevel& before, std::int64_t used, std::int64_t max, milliseconds now = 1s) {
  const auto level = update_memory_level(info(used, max), before, now);
  REQUIRE(level);
  return *level;
}

}  // namespace

TEST_CASE("Redis counts as full from 90 % of maxmemory until it is below 85 %", "[memory]") {
  MemoryLevel level = after({}, 899, 1000);
  CHECK((level.full == 0 && level.used == 899 && level.max == 1000));
  level = after(level, 900, 1000);
  CHECK(level.full == 1);
  level = after(level, 850, 1000);
  CHECK(level.full == 1);
  level = after(level, 849, 1000);
  CHECK(level.full == 0);
  CHECK(after(level, 899, 1000).full == 0);
}

TEST_CASE("a Redis without maxmemory is never full, and INFO without the fields gives no level", "[memory]") {
  CHECK(after({}, 1 << 30, 0).full == 0);
  CHECK_FALSE(hours_until_full(after({}, 1 << 30, 0)));
  CHECK_FALSE(update_memory_level("", {}, 1s));
  CHECK_FALSE(update_memory_level("# Memory\r\nused_memory_human:1M\r\nmaxmemory:5\r\n", {}, 1s));
}

TEST_CASE("an anonymous write costs one token up to 60 % of maxmemory, and ever more up to 90 %",
          "[memory]") {
  for (const double usage : {0.0, 0.3, 0.6}) CHECK(write_cost(usage) == 1);
  CHECK(write_cost(0.61) == Approx(1.07).epsilon(0.01));
  CHECK(write_cost(0.75) == Approx(4));
  CHECK(write_cost(0.80) == Approx(9));
  CHECK(write_cost(0.85) == Approx(36));
  CHECK(write_cost(0.89) == Approx(900));
  for (const double usage : {0.9, 0.95, 1.2}) CHECK(std::isinf(write_cost(usage)));
  CHECK(after({}, 750, 1000).usage() == 0.75);
  CHECK(after({}, 750, 0).usage() == 0);
}

TEST_CASE("one network's event ids take one per cent of maxmemory", "[memory]") {
  CHECK(event_ids_per_network(after({}, 1, 1 << 30)) == 20'971);
  CHECK(event_ids_per_network(after({}, 1 << 30, 0)) == 0);
}

TEST_CASE("an event id with a long name counts as several", "[memory]") {
  CHECK(event_id_units("a") == 1);
  CHECK(event_id_units(std::string(128, 'a')) == 1);
  CHECK(event_id_units(std::string(512, 'a')) == 2);
  CHECK(event_id_units(std::string(512, '%')) == 5);  // 1,536 bytes in a key name
}

TEST_CASE("the forecast is based on the growth of the last one to two hours", "[memory]") {
  MemoryLevel level = after({}, 100, 1000, 1s);
  level = after(level, 105, 1000, 300s);
  CHECK_FALSE(hours_until_full(level));  // too early
  level = after(level, 200, 1000, 1801s);
  CHECK(hours_until_full(level).value_or(0) == Approx(3.5));  // 700 to go at 100 per half hour
  for (int hour = 1; hour <= 5; ++hour) level = after(level, 200 + hour, 1000, 1801s + hour * 3600s);
  // Earlier growth is forgotten: now one per hour.
  CHECK(hours_until_full(level).value_or(0) == Approx(695));
  level = after(level, 205, 1000, 6h);
  CHECK(hours_until_full(after(level, 950, 1000, 6h + 1s)).value_or(-1) == 0);
  CHECK_FALSE(hours_until_full(after(level, 50, 1000, 6h + 1s)));  // usage shrinks
}
