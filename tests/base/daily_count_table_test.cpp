#include "core/base/daily_count_table.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

namespace freshet {
namespace {

constexpr std::size_t kSets = 64;
constexpr std::int64_t kDay = 20'000;

// A key with this tag that falls into set `set`.
std::uint64_t key_in_set(std::uint64_t set, std::uint64_t tag) {
  return (((set << 32U) / kSets + 1) << 32U) | tag;
}

void count(DailyCountTable& table, std::uint64_t key, int times, std::int64_t day = kDay) {
  for (int i = 0; i < times; ++i) table.increment(key, day);
}

TEST_CASE("a counter returns 1, 2, 3 and so on, for each key separately", "[counts]") {
  DailyCountTable table(64 * kSets);
  for (std::uint32_t number = 1; number <= 100; ++number) {
    CHECK(table.increment(key_in_set(1, 1), kDay) == number);
    CHECK(table.increment(key_in_set(1, 2), kDay) == number);
    CHECK(table.increment(key_in_set(2, 1), kDay) == number);
  }
}

TEST_CASE("a count that is given back is returned again, with a condition only if it is the last",
          "[counts]") {
  DailyCountTable table(64 * kSets);
  count(table, 1, 5);
  table.decrement(1, kDay);
  CHECK(table.increment(1, kDay) == 5);
  table.decrement(1, kDay, 4);
  CHECK(table.increment(1, kDay) == 6);
  table.decrement(1, kDay, 6);
  CHECK(table.increment(1, kDay) == 6);
  // A key that was never counted or has been evicted stays absent, as does one of another day.
  table.decrement(2, kDay);
  table.decrement(1, kDay + 1);
  CHECK(table.increment(2, kDay) == 1);
  CHECK(table.increment(1, kDay) == 7);
}

TEST_CASE("each day starts at 1, and reuses the words of the days before", "[counts]") {
  DailyCountTable table(64 * kSets);
  for (const std::int64_t day : {kDay, kDay + 1, kDay + 300, std::int64_t{16384}, std::int64_t{32767}}) {
    for (std::uint64_t tag = 1; tag <= 8; ++tag) count(table, key_in_set(5, tag), 100, day);
    for (std::uint64_t tag = 1; tag <= 8; ++tag) CHECK(table.increment(key_in_set(5, tag), day) == 101);
  }
}

TEST_CASE("a new key evicts the smallest count of its set, and the others stay", "[counts]") {
  DailyCountTable table(64 * kSets);
  for (std::uint64_t tag = 1; tag <= 8; ++tag)
    count(table, key_in_set(3, tag), 10 * static_cast<int>(9 - tag));
  CHECK(table.increment(key_in_set(3, 9), kDay) == 1);
  for (std::uint64_t tag = 1; tag <= 7; ++tag)
    CHECK(table.increment(key_in_set(3, tag), kDay) == 10 * (9 - tag) + 1);
  CHECK(table.increment(key_in_set(3, 8), kDay) == 1);
}

TEST_CASE("many new keys cannot reset a large count", "[counts]") {
  DailyCountTable table(64 * kSets);
  const std::uint64_t greedy = 0x123456789abcdef0;
  count(table, greedy, 50);
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) table.increment(random(), kDay);
  CHECK(table.increment(greedy, kDay) == 51);
}

TEST_CASE("a count stops at its maximum", "[counts]") {
  DailyCountTable table(64 * kSets);
  count(table, 7, static_cast<int>(DailyCountTable::kMaxCount));
  CHECK(table.increment(7, kDay) == DailyCountTable::kMaxCount);
  CHECK(table.increment(8, kDay) == 1);
}

TEST_CASE("concurrent threads and processes count each event once", "[counts]") {
  constexpr int kThreads = 3, kTimes = 600'000;  // long enough to overlap
  DailyCountTable table(64 * kSets);
  const auto count_all = [&] {
    for (int i = 0; i < kTimes; ++i) {
      table.increment(1, kDay);
      table.increment(2, kDay);
      table.decrement(2, kDay);
    }
  };
  const pid_t child = fork();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(count_all);
  for (std::thread& each : threads) each.join();
  if (child == 0) _exit(0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  CHECK(table.increment(1, kDay) == 2 * kThreads * kTimes + 1);
  CHECK(table.increment(2, kDay) == 1);
}

}  // namespace
}  // namespace freshet
