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

// A key that falls into set `set` of the smallest table, with this tag.
std::uint64_t key_in_set(std::uint64_t set, std::uint64_t tag) {
  const std::uint64_t sets = TokenBucketTable::kMinBytes / 64 - 1;
  return (((set << 32U) / sets + 1) << 32U) | tag;
}

// Asks each `step_us` from `from` to `to`; how often it was granted.
int granted(TokenBucketTable& table, std::uint64_t key, const TokenRate& rate, std::int64_t from, std::int64_t to,
            std::int64_t step_us) {
  int count = 0;
  for (std::int64_t now = from; now < to; now += step_us) count += table.take(key, rate, now).granted ? 1 : 0;
  return count;
}

TEST_CASE("a bucket gives its burst at once and its rate afterwards, to the token", "[limits]") {
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
  CHECK(table.take(2, rate, now).granted);  // of another, which is full
  now += kSecond;
  CHECK(granted(table, 1, rate, now, now + 100 * kSecond, 1'000) == 9 + 999);
}

TEST_CASE("a bucket is never fuller than its burst, however long nobody takes", "[limits]") {
  TokenBucketTable table(kBytes);
  const TokenRate rate = token_rate(5, 3);
  CHECK(granted(table, 9, rate, 0, 1000, 1) == 3);
  const std::int64_t year = 366LL * 86400 * kSecond;
  CHECK(granted(table, 9, rate, year, year + 1000, 1) == 3);
}

TEST_CASE("odd rates are rounded so that no more is given", "[limits]") {
  for (const double per_second : {0.0003, 0.7, 3.0, 7.0, 999.0, 30'000.0, 1e6}) {
    TokenBucketTable table(kBytes);
    const TokenRate rate = token_rate(per_second, 4);
    const auto span = static_cast<std::int64_t>(1000 * 1e6 / per_second);
    const int given = granted(table, 5, rate, 0, span, std::max<std::int64_t>(1, rate.interval_us / 3));
    CHECK(given <= 4 + 1000);
    CHECK(given >= (per_second > 500'000 ? 1000 : 960));
  }
}

TEST_CASE("a cost of several tokens takes them, and one beyond the burst takes the whole bucket",
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

TEST_CASE("a charge is taken where there is nothing, and no more than one whole bucket is owed", "[limits]") {
  TokenBucketTable table(kBytes);
  const TokenRate rate = token_rate(10, 10);
  table.charge(1, rate, 0, 5 * rate.interval_us);
  CHECK(granted(table, 1, rate, 0, 100, 1) == 5);
  table.charge(1, rate, 0, 5 * rate.interval_us);
  CHECK(table.take(1, rate, 0).retry_after_us == 6 * rate.interval_us);
  table.charge(1, rate, 0, 1000 * rate.interval_us);
  CHECK(table.take(1, rate, 0).retry_after_us == 11 * rate.interval_us);
  CHECK(table.time_to_full_us(1, 0) == 20 * rate.interval_us);
}

TEST_CASE("a bucket that other settings left owes no more than by those of now", "[limits]") {
  TokenBucketTable table(kBytes);
  const TokenRate slow = token_rate(0.001, 100);
  CHECK(granted(table, 1, slow, 0, 1000, 1) == 100);
  const TokenRate fast = token_rate(10, 10);
  CHECK(table.take(1, fast, 1000).retry_after_us <= 11 * fast.interval_us);
  CHECK(table.take(1, fast, 1000 + 11 * fast.interval_us).granted);
}

TEST_CASE("the fullest bucket of a set gives way, and the others keep their counts", "[limits]") {
  TokenBucketTable table(TokenBucketTable::kMinBytes);
  const TokenRate rate = token_rate(10, 100);
  // The n-th has given n tokens; the last is another's of the same set.
  for (std::uint64_t n = 1; n <= 8; ++n)
    for (std::uint64_t i = 0; i < 10 * n; ++i) REQUIRE(table.take(key_in_set(3, n), rate, 0).granted);
  REQUIRE(table.take(key_in_set(3, 9), rate, 0).granted);
  CHECK(table.time_to_full_us(key_in_set(3, 1), 0) == 0);
  for (std::uint64_t n = 2; n <= 8; ++n)
    CHECK(table.time_to_full_us(key_in_set(3, n), 0) == static_cast<std::int64_t>(10 * n) * rate.interval_us);
  CHECK(table.time_to_full_us(key_in_set(3, 9), 0) == rate.interval_us);
}

TEST_CASE("a crowd of newcomers does not give back the tokens of whoever asks most", "[limits]") {
  TokenBucketTable table(TokenBucketTable::kMinBytes);
  const TokenRate rate = token_rate(10, 100);
  const std::uint64_t greedy = 0x123456789abcdef0;
  REQUIRE(granted(table, greedy, rate, 0, 1000, 1) == 100);
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) table.take(random(), rate, 1000);
  CHECK_FALSE(table.take(greedy, rate, 1000).granted);
}

TEST_CASE("threads and processes that take at once get a bucket's tokens and not one more", "[limits]") {
  constexpr int kKeys = 20;
  constexpr int kThreads = 3;
  constexpr int kBurst = 500;
  TokenBucketTable table(TokenBucketTable::kMinBytes);
  const TokenRate rate = token_rate(0.01, kBurst);
  struct Counts {
    std::array<std::atomic<int>, kKeys> of;
  };
  auto* const counts =
      new (mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Counts{};
  const auto ask = [&] {
    for (int i = 0; i < kBurst; ++i)
      for (int key = 0; key < kKeys; ++key)
        if (table.take(0x9e3779b97f4a7c15 * static_cast<std::uint64_t>(key + 1), rate, 0).granted)
          counts->of[static_cast<std::size_t>(key)].fetch_add(1);
  };
  const pid_t child = fork();
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(ask);
  for (std::thread& each : threads) each.join();
  if (child == 0) _exit(0);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  for (const std::atomic<int>& count : counts->of) CHECK(count == kBurst);
  munmap(counts, sizeof(Counts));
}

// What a signal's handler needs, which can be given nothing.
struct Interruption {
  TokenBucketTable* table = nullptr;
  TokenRate rate;
  std::atomic<std::int64_t> times = 0;
};
Interruption interruption;

// Threads on two cores meet too seldom within the nanoseconds of a take to prove anything; a
// timer's signal comes in the middle of one nearly every time, however many cores there are and
// however busy they are.
TEST_CASE("no take is lost that comes in the middle of another", "[limits]") {
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

TEST_CASE("who adopts a table goes on with its counts", "[limits]") {
  TokenBucketTable table(kBytes);
  const TokenRate rate = token_rate(1, 5);
  REQUIRE(granted(table, 77, rate, 0, 100, 1) == 5);
  auto adopted = TokenBucketTable::adopt(Descriptor(dup(table.fd())), kBytes);
  REQUIRE(adopted);
  CHECK(adopted->seed() == table.seed());
  CHECK_FALSE(adopted->take(77, rate, 100).granted);
  CHECK(adopted->take(77, rate, kSecond).granted);
  CHECK_FALSE(table.take(77, rate, kSecond).granted);
}

TEST_CASE("what is no table, or another version's or size's, is not adopted", "[limits]") {
  const auto why = [](int file, std::size_t bytes) -> std::string {
    const auto adopted = TokenBucketTable::adopt(Descriptor(dup(file)), bytes);
    return adopted ? "adopted" : adopted.error().detail;
  };
  const TokenBucketTable table(kBytes);
  CHECK(why(table.fd(), kBytes) == "adopted");
  CHECK(why(table.fd(), 2 * kBytes) == "of another size");
  const auto spoil = [&](off_t at, std::uint64_t value) {
    std::uint64_t before = 0;
    REQUIRE(pread(table.fd(), &before, sizeof before, at) == sizeof before);
    REQUIRE(pwrite(table.fd(), &value, sizeof value, at) == sizeof value);
    const std::string said = why(table.fd(), kBytes);
    REQUIRE(pwrite(table.fd(), &before, sizeof before, at) == sizeof before);
    return said;
  };
  CHECK(spoil(0, 1) == "no table");
  CHECK(spoil(8, 99) == "of another version");
  CHECK(spoil(16, 99) == "of another size");
  const Descriptor file(memfd_create("unsealed", MFD_CLOEXEC));
  REQUIRE(ftruncate(file.get(), kBytes) == 0);
  CHECK(why(file.get(), kBytes) == "no table");
  CHECK(why(-1, kBytes) == "no table");
}

TEST_CASE("a take costs tens of nanoseconds", "[.bench]") {
  TokenBucketTable table(16 << 20);
  const TokenRate rate = token_rate(10, 200);
  constexpr std::size_t kTimes = 4'000'000;
  for (const std::uint64_t keys : {1ULL, 1000ULL, 1'000'000ULL}) {
    std::mt19937_64 random(2);
    std::vector<std::uint64_t> of(kTimes);
    for (auto& key : of) key = 0x9e3779b97f4a7c15 * (1 + random() % keys);
    const auto begin = std::chrono::steady_clock::now();
    std::int64_t granted = 0;
    for (std::size_t i = 0; i < kTimes; ++i)
      granted += table.take(of[i], rate, static_cast<std::int64_t>(i)).granted ? 1 : 0;
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    WARN(keys << " buckets: " << took.count() / kTimes << " ns a take, " << granted << " granted");
  }
}

}  // namespace
}  // namespace freshet
