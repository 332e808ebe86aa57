#include "core/base/token_bucket_table.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <random>
#include <thread>
#include <vector>

namespace freshet {
namespace {

constexpr std::int64_t kSecond = 1'000'000;
constexpr std::size_t kBytes = 1 << 20;

// A key with this tag that falls into set `set` of a table of the smallest size.
std::uint64_t key_in_set(std::uint64_t set, std::uint64_t tag) {
  const std::uint64_t sets = TokenBucketTable::kMinBytes / 64 - 1;
  return (((set << 32U) / sets + 1) << 32U) | tag;
}

// Takes a token every `step_us` from `from` to `to`. Returns how many were granted.
int count_granted(TokenBucketTable& table, std::uint64_t key, const TokenRate& rate, std::int64_t from,
                  std::int64_t to, std::int64_t step_us) {
  int count = 0;
  for (std::int64_t now = from; now < to; now += step_us) count += table.take(key, rate, now).granted ? 1 : 0;
  return count;
}

TEST_CASE("a bucket grants its burst at once and its rate afterwards, exactly", "[limits]") {
  TokenBucketTable table(kBytes);
  const TokenRate rate = token_rate(10, 20);
  std::int64_t now = 7 * kSecond;
  for (int i = 0; i < 20; ++i) CHECK(table.take(1, rate, now).granted);
  const TakeResult refused = table.take(1, rate, now);
  CHECK_FALSE(refused.granted);
  CHECK(refused.retry_after_us == 100'000);
  CHECK(refused.time_to_full_us == 2 * kSecond);
  CHECK_FALSE(table.take(1, rate, now + 99'999).granted);
  CHECK(table.take(1, rate, now + 100'000).granted);
  CHECK(table.take(2, rate, now).granted);  // another bucket, which is full
  now += kSecond;
  CHECK(count_granted(table, 1, rate, now, now + 100 * kSecond, 1'000) == 9 + 999);
}

TEST_CASE("a bucket never holds more than its burst, however long it is unused", "[limits]") {
  TokenBucketTable table(kBytes);
  const TokenRate rate = token_rate(5, 3);
  CHECK(count_granted(table, 9, rate, 0, 1000, 1) == 3);
  const std::int64_t year = 366LL * 86400 * kSecond;
  CHECK(count_granted(table, 9, rate, year, year + 1000, 1) == 3);
}

TEST_CASE("rates that do not divide a second are rounded down", "[limits]") {
  for (const double per_second : {0.0003, 0.7, 3.0, 7.0, 999.0, 30'000.0, 1e6}) {
    TokenBucketTable table(kBytes);
    const TokenRate rate = token_rate(per_second, 4);
    const auto span = static_cast<std::int64_t>(1000 * 1e6 / per_second);
    const int given = count_granted(table, 5, rate, 0, span, std::max<std::int64_t>(1, rate.interval_us / 3));
    CHECK(given <= 4 + 1000);
    CHECK(given >= (per_second > 500'000 ? 1000 : 960));
  }
}

TEST_CASE("a cost of several tokens takes them, and a cost above the burst takes the whole bucket",
          "[limits]") {
  TokenBucketTable table(kBytes);
  const TokenRate rate = token_rate(10, 10);
  CHECK(table.take(1, rate, 0, 4 * rate.interval_us).granted);
  CHECK(table.take(1, rate, 0, 4 * rate.interval_us).granted);
  const TakeResult refused = table.take(1, rate, 0, 4 * rate.interval_us);
  CHECK_FALSE(refused.granted);
  CHECK(refused.retry_after_us == 2 * rate.interval_us);
  CHECK(table.take(1, rate, 0, 2 * rate.interval_us).granted);
  CHECK(table.take(2, rate, 0, 40 * rate.interval_us).granted);
  CHECK_FALSE(table.take(2, rate, 0).granted);
}

TEST_CASE("a charge succeeds without tokens, up to a debt of one burst", "[limits]") {
  TokenBucketTable table(kBytes);
  const TokenRate rate = token_rate(10, 10);
  table.charge(1, rate, 0, 5 * rate.interval_us);
  CHECK(count_granted(table, 1, rate, 0, 100, 1) == 5);
  table.charge(1, rate, 0, 5 * rate.interval_us);
  CHECK(table.take(1, rate, 0).retry_after_us == 6 * rate.interval_us);
  table.charge(1, rate, 0, 1000 * rate.interval_us);
  CHECK(table.take(1, rate, 0).retry_after_us == 11 * rate.interval_us);
  CHECK(table.time_to_full_us(1, 0) == 20 * rate.interval_us);
}

TEST_CASE("debt left by other settings is limited to that of the current ones", "[limits]") {
  TokenBucketTable table(kBytes);
  const TokenRate slow = token_rate(0.001, 100);
  CHECK(count_granted(table, 1, slow, 0, 1000, 1) == 100);
  const TokenRate fast = token_rate(10, 10);
  CHECK(table.take(1, fast, 1000).retry_after_us <= 11 * fast.interval_us);
  CHECK(table.take(1, fast, 1000 + 11 * fast.interval_us).granted);
}

TEST_CASE("a new key evicts the fullest bucket of its set, and the others keep their state", "[limits]") {
  TokenBucketTable table(TokenBucketTable::kMinBytes);
  const TokenRate rate = token_rate(10, 100);
  // The n-th key has taken 10·n tokens; the last one falls into the same set.
  for (std::uint64_t n = 1; n <= 8; ++n)
    for (std::uint64_t i = 0; i < 10 * n; ++i) REQUIRE(table.take(key_in_set(3, n), rate, 0).granted);
  REQUIRE(table.take(key_in_set(3, 9), rate, 0).granted);
  CHECK(table.time_to_full_us(key_in_set(3, 1), 0) == 0);
  for (std::uint64_t n = 2; n <= 8; ++n)
    CHECK(table.time_to_full_us(key_in_set(3, n), 0) == static_cast<std::int64_t>(10 * n) * rate.interval_us);
  CHECK(table.time_to_full_us(key_in_set(3, 9), 0) == rate.interval_us);
}

TEST_CASE("many new keys cannot evict the bucket of the heaviest user", "[limits]") {
  TokenBucketTable table(TokenBucketTable::kMinBytes);
  const TokenRate rate = token_rate(10, 100);
  const std::uint64_t greedy = 0x123456789abcdef0;
  REQUIRE(count_granted(table, greedy, rate, 0, 1000, 1) == 100);
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) table.take(random(), rate, 1000);
  CHECK_FALSE(table.take(greedy, rate, 1000).granted);
}

TEST_CASE("concurrent threads and processes get exactly a bucket's tokens", "[limits]") {
  constexpr int kKeys = 20;
  constexpr int kThreads = 3;
  constexpr int kBurst = 500;
  TokenBucketTable table(TokenBucketTable::kMinBytes);
  const TokenRate rate = token_rate(0.01, kBurst);
  struct Counts {
    std::array<std::atomic<int>, kKeys> per_key;
  };
  auto* const counts =
      new (mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Counts{};
  const auto take_all = [&] {
    for (int i = 0; i < kBurst; ++i)
      for (int key = 0; key < kKeys; ++key)
        if (table.take(0x9e3779b97f4a7c15 * static_cast<std::uint64_t>(key + 1), rate, 0).granted)
          counts->per_key[static_cast<std::size_t>(key)].fetch_add(1);
  };
  const pid_t child = fork();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(take_all);
  for (std::thread& each : threads) each.join();
  if (child == 0) _exit(0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  for (const std::atomic<int>& count : counts->per_key) CHECK(count == kBurst);
  munmap(counts, sizeof(Counts));
}

// For the signal handler, which takes no arguments.
struct Interruption {
  TokenBucketTable* table = nullptr;
  TokenRate rate;
  std::atomic<std::int64_t> times = 0;
};
Interruption interruption;

// Threads on two cores rarely overlap within the nanoseconds of a take(). A timer signal interrupts
// one nearly every time, whatever the number of cores and the load.
TEST_CASE("a take that interrupts another is not lost", "[limits]") {
  constexpr int kTimes = 2000;
  TokenBucketTable table(TokenBucketTable::kMinBytes);
  interruption.table = &table;
  interruption.rate = token_rate(1e6, 2e11);
  struct sigaction before {
  }, action{};
  action.sa_handler = [](int) {
    interruption.table->take(1, interruption.rate, 0);
    interruption.times.fetch_add(1);
  };
  REQUIRE(sigaction(SIGALRM, &action, &before) == 0);
  const itimerval often{{0, 50}, {0, 50}}, never{};
  REQUIRE(setitimer(ITIMER_REAL, &often, nullptr) == 0);
  std::int64_t own = 0;
  for (; interruption.times.load() < kTimes; ++own) table.take(1, interruption.rate, 0);
  REQUIRE(setitimer(ITIMER_REAL, &never, nullptr) == 0);
  REQUIRE(sigaction(SIGALRM, &before, nullptr) == 0);
  CHECK(table.time_to_full_us(1, 0) == own + interruption.times.load());
}

TEST_CASE("an adopted table keeps its state", "[limits]") {
  TokenBucketTable table(kBytes);
  const TokenRate rate = token_rate(1, 5);
  REQUIRE(count_granted(table, 77, rate, 0, 100, 1) == 5);
  auto adopted = TokenBucketTable::adopt(Descriptor(dup(table.fd())), kBytes);
  REQUIRE(adopted);
  CHECK(adopted->seed() == table.seed());
  CHECK_FALSE(adopted->take(77, rate, 100).granted);
  CHECK(adopted->take(77, rate, kSecond).granted);
  CHECK_FALSE(table.take(77, rate, kSecond).granted);
}

TEST_CASE("a file that is not a table, or has another version or size, is not adopted", "[limits]") {
  const auto adopt_error = [](int file, std::size_t bytes) -> std::string {
    const auto adopted = TokenBucketTable::adopt(Descriptor(dup(file)), bytes);
    return adopted ? "adopted" : adopted.error().detail;
  };
  const TokenBucketTable table(kBytes);
  CHECK(adopt_error(table.fd(), kBytes) == "adopted");
  CHECK(adopt_error(table.fd(), 2 * kBytes) == "different size");
  const auto error_with = [&](off_t at, std::uint64_t value) {
    std::uint64_t before = 0;
    REQUIRE(pread(table.fd(), &before, sizeof before, at) == sizeof before);
    REQUIRE(pwrite(table.fd(), &value, sizeof value, at) == sizeof value);
    const std::string error = adopt_error(table.fd(), kBytes);
    REQUIRE(pwrite(table.fd(), &before, sizeof before, at) == sizeof before);
    return error;
  };
  CHECK(error_with(0, 1) == "not a token bucket table");
  CHECK(error_with(8, 99) == "different version");
  CHECK(error_with(16, 99) == "different size");
  const Descriptor file(memfd_create("unsealed", MFD_CLOEXEC));
  REQUIRE(ftruncate(file.get(), kBytes) == 0);
  CHECK(adopt_error(file.get(), kBytes) == "not a token bucket table");
  CHECK(adopt_error(-1, kBytes) == "not a token bucket table");
}

TEST_CASE("a take costs tens of nanoseconds", "[.bench]") {
  TokenBucketTable table(16 << 20);
  const TokenRate rate = token_rate(10, 200);
  constexpr std::size_t kTimes = 4'000'000;
  for (const std::uint64_t keys : {1ULL, 1000ULL, 1'000'000ULL}) {
    std::mt19937_64 random(2);
    std::vector<std::uint64_t> sequence(kTimes);
    for (auto& key : sequence) key = 0x9e3779b97f4a7c15 * (1 + random() % keys);
    const auto begin = std::chrono::steady_clock::now();
    std::int64_t granted = 0;
    for (std::size_t i = 0; i < kTimes; ++i)
      granted += table.take(sequence[i], rate, static_cast<std::int64_t>(i)).granted ? 1 : 0;
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
    CHECK(granted > 0);
    WARN(keys << " buckets: " << elapsed.count() / kTimes << " ns a take, " << granted << " granted");
  }
}

}  // namespace
}  // namespace freshet
