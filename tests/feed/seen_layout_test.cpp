#include "core/feed/seen_layout.h"

#include <rapidcheck.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>

using namespace freshet;
using feed::FingerprintSet;

namespace {

ReaderId reader(std::uint64_t n) { return ReaderId::trusted("reader-" + std::to_string(n)); }
ItemId item(std::uint64_t n) { return ItemId::trusted("item-" + std::to_string(n)); }
std::vector<ItemId> items(std::uint64_t from, std::uint64_t count) {
  std::vector<ItemId> out;
  for (std::uint64_t i = from; i < from + count; ++i) out.push_back(item(i));
  return out;
}
std::string shard_bytes(std::uint64_t number, const std::vector<ItemId>& ids) {
  return feed::encode_fingerprints(feed::reader_hash(reader(number)), ids);
}
std::size_t count_known(const FingerprintSet& prints, std::uint64_t number, const std::vector<ItemId>& ids) {
  const auto found = prints.contains(feed::reader_hash(reader(number)), ids);
  return static_cast<std::size_t>(std::count(found.begin(), found.end(), true));
}

// Expectation for `probes` trials at `rate`, plus five standard deviations.
double at_most(double rate, double probes) { return rate + 5 * std::sqrt(rate / probes); }

}  // namespace

TEST_CASE("items added to a shard are always found, whatever other readers add", "[rank][seen]") {
  CHECK(rc::check("no false negatives", [] {
    const auto pages = *rc::gen::container<std::vector<std::pair<unsigned, std::vector<unsigned>>>>(
        rc::gen::pair(rc::gen::inRange(0U, 4U),
                      rc::gen::container<std::vector<unsigned>>(rc::gen::inRange(0U, 5000U))));
    std::array<std::string, 3> days;
    std::map<unsigned, std::vector<ItemId>> items_by_reader;
    for (const auto& [number, ids] : pages) {
      std::vector<ItemId> page;
      for (const unsigned each : ids) page.push_back(item(each));
      days[page.size() % days.size()] += shard_bytes(number, page);
      items_by_reader[number].insert(items_by_reader[number].end(), page.begin(), page.end());
    }
    FingerprintSet prints;
    for (const std::string& day : days) RC_ASSERT(prints.add_shard(day));
    for (const auto& [number, ids] : items_by_reader)
      RC_ASSERT(count_known(prints, number, ids) == ids.size());
  }));
}

TEST_CASE("the false-positive rate follows the formula", "[rank][seen]") {
  const std::uint64_t impressions = GENERATE(as<std::uint64_t>(), 512, 3512, 60'000);
  FingerprintSet prints;
  prints.add_shard(shard_bytes(1, items(0, impressions)));
  const std::uint64_t probes = 1'000'000;
  const double expected = feed::shard_false_positive_rate(static_cast<std::int64_t>(impressions));
  const double measured =
      static_cast<double>(count_known(prints, 1, items(1'000'000'000, probes))) / static_cast<double>(probes);
  INFO(impressions << " impressions: " << measured << ", by the formula " << expected);
  CHECK(measured <= at_most(expected, static_cast<double>(probes)));
  CHECK(measured >= expected - 5 * std::sqrt(expected / static_cast<double>(probes)));
}

TEST_CASE("eight days have few false positives, even for a reader with 3,000 impressions a day",
          "[rank][seen]") {
  const auto [own, most] = GENERATE(table<std::uint64_t, double>({{60, 0.0005}, {3000, 0.002}}));
  FingerprintSet prints;
  for (std::uint64_t day = 0; day < 8; ++day) {
    std::string shard = shard_bytes(1, items(day * 10'000, own));
    // Twice as many as a shard is expected to hold.
    for (std::uint64_t other = 2; other < 19; ++other) shard += shard_bytes(other, items(day * 10'000, 60));
    prints.add_shard(shard);
  }
  const double measured =
      static_cast<double>(count_known(prints, 1, items(1'000'000'000, 400'000))) / 400'000;
  INFO(own << " a day: " << measured);
  CHECK(measured <= most);
  CHECK(measured > most / 5);  // otherwise nothing was measured
}

TEST_CASE("readers who share a shard do not share impressions", "[rank][seen]") {
  FingerprintSet prints;
  prints.add_shard(shard_bytes(1, items(0, 1000)));
  CHECK(count_known(prints, 1, items(0, 1000)) == 1000);
  CHECK(count_known(prints, 2, items(0, 1000)) <= 2);  // 0.06 are expected
}

TEST_CASE("the boundary between reader id and item id matters", "[rank][seen]") {
  const auto print = [](const char* reader_id, const char* item_id) {
    return feed::fingerprint_of(feed::reader_hash(ReaderId::trusted(reader_id)), ItemId::trusted(item_id));
  };
  CHECK(print("a", "b:c") != print("a:b", "c"));
  CHECK(print("a", "bc") != print("ab", "c"));
  CHECK(print("", "abc") != print("abc", ""));
  CHECK(print("a", "b") != print("b", "a"));
}

TEST_CASE("a day has one shard per 512 expected impressions", "[rank][seen]") {
  CHECK(feed::shard_count_for(1'000'000) == 1954);
  CHECK(feed::shard_count_for(1000) == 2);
  CHECK(feed::shard_count_for(1) == 1);
  CHECK(feed::shard_count_for(10'000'000'000) == 19'531'250);
}

TEST_CASE("daily_false_positive_rate() divides the combined rate over eight days", "[rank][seen]") {
  CHECK(feed::daily_false_positive_rate(0.01) == Approx(0.0012555).epsilon(1e-4));
}

TEST_CASE("shards are used evenly and cover all hashes", "[rank][seen]") {
  CHECK(feed::shard_of(0, 10) == 0);
  CHECK(feed::shard_of(~std::uint64_t{0}, 10) == 9);
  std::array<int, 10> readers{};
  for (std::uint64_t i = 0; i < 10'000; ++i)
    ++readers[static_cast<std::size_t>(feed::shard_of(feed::reader_hash(reader(i)), 10))];
  for (const int count : readers) CHECK(std::abs(count - 1000) < 150);
}

TEST_CASE("a day expires eight days after it began, in UTC", "[rank][seen]") {
  const UnixSeconds midnight{seconds{1772755200}};  // 2026-03-06T00:00:00Z
  const UnixSeconds end = midnight + std::chrono::days(8);
  CHECK(feed::filter_expires_at(midnight) == end);
  CHECK(feed::filter_expires_at(midnight + seconds{86399}) == end);
  CHECK(feed::filter_expires_at(midnight + seconds{86400}) == end + std::chrono::days(1));
  CHECK(feed::filter_expires_at(midnight - seconds{1}) == end - std::chrono::days(1));
  CHECK(utc_day(feed::filter_expires_at(midnight)) == "20260314");
}

TEST_CASE("an impression takes three bytes, in the order shown", "[rank][seen]") {
  CHECK(shard_bytes(1, {}).empty());
  const std::string both = shard_bytes(1, items(0, 2));
  CHECK(both.size() == 6);
  CHECK(both == shard_bytes(1, items(0, 1)) + shard_bytes(1, items(1, 1)));
}

TEST_CASE("a shard with foreign bytes in it loses no impressions", "[rank][seen]") {
  const std::string foreign = GENERATE("x", "xy");
  FingerprintSet prints;
  CHECK_FALSE(prints.add_shard(shard_bytes(1, items(0, 100)) + foreign + shard_bytes(1, items(100, 100))));
  CHECK(count_known(prints, 1, items(0, 200)) == 200);
  CHECK(count_known(prints, 1, items(1000, 1000)) <= 3);  // 0.04 are expected
}

TEST_CASE("any bytes can be read as a shard", "[rank][seen]") {
  CHECK(rc::check("any bytes", [] {
    FingerprintSet prints;
    const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    RC_ASSERT(prints.add_shard(bytes) == (bytes.size() % 3 == 0));
    RC_ASSERT(count_known(prints, 1, items(0, 10)) <= 10);
  }));
  FingerprintSet none;
  CHECK(none.add_shard(""));
  CHECK(count_known(none, 1, items(0, 10)) == 0);
}
