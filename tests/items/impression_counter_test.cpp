#include "core/items/impression_counter.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/support/store_fixture.h"

using namespace freshet;
using test::Fixture;

namespace {

std::vector<ItemId> item_ids(const std::vector<std::string>& names) {
  std::vector<ItemId> out;
  for (const std::string& each : names) out.push_back(ItemId::trusted(each));
  return out;
}

}  // namespace

TEST_CASE_METHOD(Fixture, "impressions are summed up and written together", "[items]") {
  put(item("a", now()));
  put(item("b", now()));
  items::ImpressionCounter shown(write_queue, keys());
  shown.add(item_ids({"a", "b"}));
  shown.add(item_ids({"a"}));
  CHECK(shown.pending() == 2);
  CHECK(stats("a").impressions == 0);
  shown.flush();
  shown.flush();
  CHECK(stats("a").impressions == 2);
  CHECK(stats("b").impressions == 1);
  CHECK(shown.pending() == 0);
  CHECK(shown.total() == 3);
  shown.add(item_ids({"a"}));
  shown.flush();
  CHECK(stats("a").impressions == 3);
  CHECK(ttl(keys().article("a")) == -1);
}

TEST_CASE_METHOD(Fixture, "an impression does not create the hash of an unknown item", "[items]") {
  items::ImpressionCounter shown(write_queue, keys());
  shown.add(item_ids({"gone"}));
  shown.flush();
  CHECK_FALSE(exists(keys().article("gone")));
}

TEST_CASE_METHOD(Fixture, "impressions start over with the page views", "[items]") {
  put(item("a", now()));
  items::ImpressionCounter shown(write_queue, keys());
  shown.add(item_ids({"a"}));
  shown.flush();
  track(track_event("a", "v", 1000));
  CHECK(stats("a").impressions == 1);
  const auto ended = std::to_string(unix_s(now()) - settings.engagement.counter_ttl.count() - 1);
  command("HSET", keys().article("a"), "renewed", ended);
  CHECK(stats("a").pv == 0);
  CHECK(stats("a").impressions == 0);
  track(track_event("a", "w", 1000));
  CHECK(stats("a").pv == 1);
  CHECK(stats("a").impressions == 0);
}

TEST_CASE_METHOD(Fixture, "impressions are flushed when many are pending, or after an interval", "[items]") {
  put(item("a", now()));
  std::vector<std::string> many;
  for (std::size_t i = 1; i < items::ImpressionCounter::kMaxItems; ++i)
    many.push_back("i" + std::to_string(i));
  std::vector<std::function<void()>> timers;
  items::ImpressionCounter shown(write_queue, keys(), [&](milliseconds span, std::function<void()> f) {
    CHECK(span == items::ImpressionCounter::kFlushInterval);
    timers.push_back(std::move(f));
  });
  shown.add(item_ids(many));
  CHECK(shown.pending() == items::ImpressionCounter::kMaxItems - 1);
  shown.add(item_ids({"a"}));
  CHECK(shown.pending() == 0);
  CHECK(stats("a").impressions == 1);
  REQUIRE(timers.size() == 1);
  shown.add(item_ids({"a"}));
  timers[0]();
  CHECK(stats("a").impressions == 2);
  shown.add(item_ids({"a"}));
  CHECK(timers.size() == 2);
}
