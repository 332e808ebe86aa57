#include "core/feed/seen_layout.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

#include "tests/support/seen_model.h"

using namespace freshet;
using feed::SeenLayout;
using feed::SeenShard;
using test::SeenModel;

namespace {

ReaderId reader(std::uint64_t n) { return ReaderId::trusted("reader-" + std::to_string(n)); }
ItemId item(std::uint64_t n) { return ItemId::trusted("item-" + std::to_string(n)); }

SeenSettings with(double rate, std::int64_t impressions) {
  SeenSettings out;
  out.false_positive_rate = rate;
  out.impressions_per_day = impressions;
  return out;
}

// A shard in which `count` impressions of `who` lie, items from `first` on, in pages of 20.
void show(SeenModel& shard, int width, const ReaderId& who, std::uint64_t first, std::uint64_t count) {
  const std::uint64_t hash = feed::reader_hash(who);
  for (std::uint64_t at = first; at < first + count; at += 20) {
    std::vector<std::uint64_t> page;
    for (std::uint64_t i = at; i < std::min(at + 20, first + count); ++i)
      page.push_back(feed::impression_hash(hash, item(i)));
    shard.add(feed::seen_entries(page, width));
  }
}

// The share of `probes` items never shown that some of the days' shards contain.
double measured_rate(const std::vector<SeenShard>& days, const ReaderId& who, std::uint64_t probes) {
  const std::uint64_t hash = feed::reader_hash(who);
  std::uint64_t hits = 0;
  for (std::uint64_t i = 0; i < probes; ++i) {
    const std::uint64_t print = feed::impression_hash(hash, item(1'000'000'000 + i));
    for (const SeenShard& day : days) {
      if (!day.contains(print)) continue;
      ++hits;
      break;
    }
  }
  return static_cast<double>(hits) / static_cast<double>(probes);
}

// What is expected of `probes` trials at `rate`, and five standard deviations more.
double at_most(double rate, double probes) { return rate + 5 * std::sqrt(rate / probes); }

}  // namespace

TEST_CASE("what was added to a shard is always found, whoever else adds and however much", "[rank][seen]") {
  CHECK(rc::check("no false negatives", [] {
    const int width = *rc::gen::inRange(2, 5);
    const auto pages = *rc::gen::container<std::vector<std::pair<int, std::vector<int>>>>(rc::gen::pair(
        rc::gen::inRange(0, 4), rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 5000))));
    SeenModel model(width);
    std::set<std::pair<int, int>> shown;
    for (const auto& [who, items] : pages) {
      std::vector<std::uint64_t> hashes;
      for (const int each : items) {
        hashes.push_back(feed::impression_hash(feed::reader_hash(reader(static_cast<unsigned>(who))),
                                               item(static_cast<unsigned>(each))));
        shown.insert({who, each});
      }
      model.add(feed::seen_entries(hashes, width));
    }
    const SeenShard shard(model.bytes());
    for (const auto& [who, each] : shown) {
      RC_ASSERT(shard.contains(feed::impression_hash(feed::reader_hash(reader(static_cast<unsigned>(who))),
                                                     item(static_cast<unsigned>(each)))));
    }
    RC_ASSERT(shard.impressions() <= static_cast<std::int64_t>(shown.size()));
  }));
}

TEST_CASE("a shard with many times what is expected finds everything, in several tables", "[rank][seen]") {
  SeenModel model(2);
  show(model, 2, reader(1), 0, 60'000);
  const SeenShard shard(model.bytes());
  CHECK(shard.impressions() > 59'000);  // a few fingerprints are equal
  const std::uint64_t hash = feed::reader_hash(reader(1));
  for (std::uint64_t i = 0; i < 60'000; ++i) REQUIRE(shard.contains(feed::impression_hash(hash, item(i))));
}

TEST_CASE("the rate of false positives is the formula's", "[rank][seen]") {
  const std::int64_t impressions = GENERATE(500, 2048, 5048, 20'000, 60'000);
  SeenModel model(2);
  show(model, 2, reader(1), 0, static_cast<std::uint64_t>(impressions));
  const double probes = 400'000;
  const double expected = feed::shard_rate(impressions, 2);
  const double measured =
      measured_rate({SeenShard(model.bytes())}, reader(1), static_cast<std::uint64_t>(probes));
  INFO(impressions << " impressions: " << measured << ", by the formula " << expected);
  CHECK(measured <= at_most(expected, probes));
  CHECK(measured >= expected - 5 * std::sqrt(expected / probes));
}

TEST_CASE("eight days keep the configured rate, for a reader of 3,000 a day too", "[rank][seen]") {
  const SeenLayout layout = feed::seen_layout(with(0.01, 1'000'000));
  for (const std::uint64_t own : {60U, 3000U}) {
    std::vector<SeenShard> days;
    for (std::uint64_t day = 0; day < 8; ++day) {
      SeenModel model(layout.width);
      show(model, layout.width, reader(1), day * 10'000, own);
      for (std::uint64_t other = 2; other < 36; ++other)
        show(model, layout.width, reader(other), day * 10'000, 60);
      days.emplace_back(model.bytes());
    }
    const double measured = measured_rate(days, reader(1), 200'000);
    INFO(own << " a day: " << measured);
    CHECK(measured <= 0.01);
    CHECK(measured > 0.001);  // else nothing was measured
  }
}

TEST_CASE("what one reader saw is nothing another one saw, though they share a shard", "[rank][seen]") {
  SeenModel model(2);
  show(model, 2, reader(1), 0, 1000);
  const SeenShard shard(model.bytes());
  int known = 0;
  for (std::uint64_t i = 0; i < 1000; ++i)
    known += shard.contains(feed::impression_hash(feed::reader_hash(reader(2)), item(i))) ? 1 : 0;
  CHECK(known <= 5);  // 0.24 are expected
}

TEST_CASE("where the reader's id ends and the item's begins makes a difference", "[rank][seen]") {
  const auto hash = [](const char* who, const char* what) {
    return feed::impression_hash(feed::reader_hash(ReaderId::trusted(who)), ItemId::trusted(what));
  };
  CHECK(hash("a", "b:c") != hash("a:b", "c"));
  CHECK(hash("a", "bc") != hash("ab", "c"));
  CHECK(hash("", "abc") != hash("abc", ""));
  CHECK(hash("a", "b") != hash("b", "a"));
}

TEST_CASE("a layout follows from the combined rate and the impressions a day", "[rank][seen]") {
  CHECK(feed::seen_layout(with(0.01, 1'000'000)) == SeenLayout{2, 489});
  CHECK(feed::seen_layout(with(0.2, 1000)) == SeenLayout{2, 1});
  CHECK(feed::seen_layout(with(0.009, 1'000'000)).width == 3);
  CHECK(feed::seen_layout(with(1e-6, 10'000'000'000)) == SeenLayout{4, 4'882'813});
  CHECK(rc::check("the rate holds for whoever sees 3,000 a day", [] {
    const double rate = std::exp(static_cast<double>(*rc::gen::inRange(-13'000, -1'700)) / 1000);
    const SeenLayout layout =
        feed::seen_layout(with(rate, *rc::gen::inRange<std::int64_t>(1000, 10'000'000'000)));
    RC_ASSERT(feed::combined_rate(feed::shard_rate(2048 + 3000, layout.width)) <= rate);
  }));
}

TEST_CASE("eight days' rates make up the combined one", "[rank][seen]") {
  CHECK(feed::daily_rate(0.01) == Approx(0.0012555).epsilon(1e-4));
  CHECK(feed::combined_rate(feed::daily_rate(0.01)) == Approx(0.01));
}

TEST_CASE("a layout is read back from its text, and nothing else is one", "[rank][seen]") {
  CHECK(SeenLayout{3, 4'882'813}.text() == "3x4882813");
  CHECK(SeenLayout::parse("3x4882813") == SeenLayout{3, 4'882'813});
  for (const char* text : {"", "x", "2x", "x5", "2x0", "2x-1", "1x5", "5x5", "2x5 ", "2 x5", "2x5x5", "2,5",
                           "2x99999999999999999999"})
    CHECK_FALSE(SeenLayout::parse(text));
}

TEST_CASE("shards are used evenly, and every hash has one", "[rank][seen]") {
  const SeenLayout layout{2, 10};
  CHECK(feed::shard_of(0, layout) == 0);
  CHECK(feed::shard_of(~std::uint64_t{0}, layout) == 9);
  std::array<int, 10> readers{};
  for (std::uint64_t i = 0; i < 10'000; ++i)
    ++readers[static_cast<std::size_t>(feed::shard_of(feed::reader_hash(reader(i)), layout))];
  for (const int count : readers) CHECK(std::abs(count - 1000) < 150);
}

TEST_CASE("a day is forgotten eight days after it began, in UTC", "[rank][seen]") {
  const UnixSeconds midnight{seconds{1772755200}};  // 2026-03-06T00:00:00Z
  const UnixSeconds end = midnight + std::chrono::days(8);
  CHECK(feed::forgotten_at(midnight) == end);
  CHECK(feed::forgotten_at(midnight + seconds{86399}) == end);
  CHECK(feed::forgotten_at(midnight + seconds{86400}) == end + std::chrono::days(1));
  CHECK(feed::forgotten_at(midnight - seconds{1}) == end - std::chrono::days(1));
  CHECK(utc_day(feed::forgotten_at(midnight)) == "20260314");
}

TEST_CASE("impressions leave sorted by bucket, each once", "[rank][seen]") {
  CHECK(feed::seen_entries({}, 2).empty());
  CHECK(feed::seen_entries({0xfc00000000000102, 0x0400000000000304, 0xfc00000000000102}, 2) ==
        std::string("\x01\x04\x03\x3f\x02\x01", 6));
  CHECK(feed::seen_entries({0x0400000001020304}, 4) == std::string("\x01\x04\x03\x02\x01", 5));
}

TEST_CASE("bytes that are no shard say that nothing was seen", "[rank][seen]") {
  CHECK(rc::check("any bytes", [] {
    const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    SeenShard(bytes).contains(*rc::gen::arbitrary<std::uint64_t>());
  }));
  SeenModel model(2);
  show(model, 2, reader(1), 0, 100);
  const std::string whole = model.bytes();
  CHECK(SeenShard(whole).impressions() == 100);
  CHECK(SeenShard(whole.substr(0, whole.size() - 1)).impressions() == 0);
  CHECK(SeenShard(whole.substr(0, 64)).impressions() == 0);
  CHECK(SeenShard("").impressions() == 0);
}
