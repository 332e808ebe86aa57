// What counting costs Redis.
#include "core/base/redis_clock.h"
#include "core/hot/hot_store.h"
#include "core/items/item_store.h"
#include "core/items/impression_counter.h"
#include "tests/cost/cost.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using test::Cost;

namespace {

// A worker, and an article that was put and is read by others.
struct Counting {
  Counting() {
    items::Item item;
    item.id = ItemId::trusted("a");
    item.published_at = UnixSeconds{seconds{1700000000}};
    REQUIRE(redis::run_sync(items.put(item)));
    for (int i = 0; i < 150; ++i) track("v" + std::to_string(i), 1000);
    view("v1");
    settle();
  }
  void track(const std::string& visitor, std::int64_t dwell, const std::string& event = {},
             const std::string& id = "a") {
    auto report = test::Fixture::track_event(id, visitor, dwell);
    report.attributed_to = report.visitor;
    report.event_id = EventId::trusted(event);
    REQUIRE(redis::run_sync(hot.track(report)));
  }
  void view(const std::string& fingerprint, const std::string& event = {}) {
    auto seen = test::Fixture::view_event("a", fingerprint);
    seen.attributed_to = VisitorId::trusted(fingerprint);
    seen.event_id = EventId::trusted(event);
    REQUIRE(redis::run_sync(hot.view(seen)));
  }
  void settle() { behind.flush(); }
  Cost of(const std::function<void()>& work) { return costs.measure(work); }

  test::CostMeter costs;
  Settings settings;
  redis::Keys keys{""};
  test::ImmediateWriteQueue later{costs.direct};
  test::DeferredWork behind{later, settings, keys};
  hot::RedisHotStore hot{costs.redis, behind.writers, settings, keys, [] { return std::string("e"); }};
  items::RedisItemStore items{costs.redis, settings, keys};
};

void expect(const Cost& cost, std::int64_t commands, std::int64_t aof_bytes, std::int64_t round_trips = 1) {
  INFO(cost.text());
  CHECK(cost.commands() == commands);
  CHECK(cost.round_trips == round_trips);
  CHECK(cost.aof_bytes <= aof_bytes);
}

}  // namespace

TEST_CASE_METHOD(Counting, "a report", "[cost]") {
  SECTION("the first of a session") {
    expect(of([&] { track("w", 1000); }), 6, 420);  // PFCOUNT is not among them each time
  }
  SECTION("of a visitor who is known, in another session") {
    auto again = test::Fixture::track_event("a", "v1", 1000, "another");
    expect(of([&] { REQUIRE(redis::run_sync(hot.track(again))); }), 5, 360);
  }
  SECTION("repeated, with more dwell") {
    expect(of([&] { track("v1", 5000); }), 6, 420);
  }
  SECTION("repeated, with nothing new") {
    expect(of([&] { track("v1", 1000); }), 5, 240);
  }
  SECTION("with an event id") {
    expect(of([&] { track("w", 1000, "e1"); }), 8, 600);
  }
  SECTION("of an article that nobody knew") {
    expect(of([&] { track("w", 1000, {}, "new"); }), 9, 590);
  }
}

TEST_CASE_METHOD(Counting, "a view", "[cost]") {
  SECTION("of the day's visitor") {
    expect(of([&] { view("w"); }), 6, 420);
  }
  SECTION("within the window") {
    expect(of([&] { view("v1"); }), 3, 0);
  }
  SECTION("with an event id") {
    expect(of([&] { view("w", "e1"); }), 8, 600);
  }
}

TEST_CASE_METHOD(Counting, "what follows behind the replies", "[cost]") {
  for (int i = 0; i < 100; ++i) {
    track("w", 1000, {}, "b" + std::to_string(i));
    track("x", 1000, {}, "b" + std::to_string(i));
  }
  settle();
  for (int i = 0; i < 100; ++i) track("w", 2000, {}, "b" + std::to_string(i));
  // A hundred articles in their places: six commands; and what one visitor added to them.
  const Cost cost = of([&] { behind.rank_updater.flush(); });
  INFO(cost.text());
  CHECK(cost.commands() == 6);
  CHECK(cost.aof_bytes < 100 * 80);
  const Cost added = of([&] { behind.contributions.flush(); });
  INFO(added.text());
  CHECK(added.commands() == 102);
  // And what twenty items on a page of a feed add.
  items::ImpressionCounter shown(later, keys);
  std::vector<ItemId> page;
  for (int i = 0; i < 20; ++i) page.push_back(ItemId::trusted("b" + std::to_string(i)));
  shown.add(page);
  const Cost first_page = of([&] { shown.flush(); });
  INFO(first_page.text());
  CHECK(first_page.commands() == 2 * 20);
  shown.add(page);
  const Cost of_page = of([&] { shown.flush(); });
  INFO(of_page.text());
  CHECK(of_page.commands() == 20);
}

TEST_CASE_METHOD(Counting, "a list", "[cost]") {
  hot::ListQuery query, tagged;
  tagged.tag = TagName::trusted("news");
  const auto read = [&] {
    const auto list = redis::run_sync(hot.cached_list(query));
    REQUIRE(list);
    return *list;
  };
  auto list = read();
  SECTION("built in this slice, or to be built") {
    expect(of([&] { read(); }), 6, 0, 2);  // somebody else builds
    list.json = "[]";
    list.built_ms = wall_ms().count();
    hot.store_list(query, list);
    const Cost fresh = of([&] { list = read(); });
    if (list.freshness == hot::CachedList::Freshness::kFresh) expect(fresh, 5, 0);  // else the slice has just ended
  }
  SECTION("a page of a rank, which is read twice: members, dates") {
    expect(of([&] { REQUIRE(redis::run_sync(hot.rank_page(query, {}, 100))->items.size() == 1); }), 2, 0, 2);
  }
  SECTION("a page of a small tag: how many, which, their places, their dates and tags") {
    items::Item item;
    item.id = ItemId::trusted("a");
    item.published_at = UnixSeconds{seconds{1700000000}};
    item.tags = {tagged.tag};
    REQUIRE(redis::run_sync(items.put(item)));
    expect(of([&] { REQUIRE(redis::run_sync(hot.rank_page(tagged, {}, 100))->items.size() == 1); }), 5, 0, 4);
  }
  SECTION("heads of buckets: members and what the index says, dates") {
    const std::int64_t hour = 1700000000 / kHourSeconds;
    expect(of([&] { REQUIRE(redis::run_sync(hot.bucket_heads({{hour}}, 0, 25))->size() == 1); }), 3, 0, 2);
  }
}
