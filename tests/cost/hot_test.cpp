// Redis cost of counting.
#include "core/base/redis_clock.h"
#include "core/hot/hot_store.h"
#include "core/items/impression_counter.h"
#include "core/items/item_store.h"
#include "tests/cost/cost.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using test::Cost;

namespace {

// A worker, and a published article with views.
struct CountingFixture {
  CountingFixture() {
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
    if (id != "new") report.published_at = this_hour;
    report.event_id = EventId::trusted(event);
    REQUIRE(redis::run_sync(hot.track(report)));
  }
  void view(const std::string& fingerprint, const std::string& event = {}) {
    auto seen = test::Fixture::view_event("a", fingerprint);
    seen.attributed_to = VisitorId::trusted(fingerprint);
    seen.event_id = EventId::trusted(event);
    REQUIRE(redis::run_sync(hot.view(seen)));
  }
  void settle() { deferred_work.flush(); }
  Cost measure(const std::function<void()>& work) { return costs.measure(work); }

  test::CostMeter costs;
  const UnixSeconds this_hour = std::chrono::floor<std::chrono::hours>(wall_now());
  Settings settings;
  redis::Keys keys{""};
  test::ImmediateWriteQueue write_queue{costs.direct};
  test::DeferredWork deferred_work{write_queue, settings, keys};
  hot::RedisHotStore hot{costs.redis, deferred_work.writers, settings, keys, [] { return std::string("e"); }};
  items::RedisItemStore items{costs.redis, settings, keys};
};

void check_cost(const Cost& cost, std::int64_t commands, std::int64_t aof_bytes,
                std::int64_t round_trips = 1) {
  INFO(cost.text());
  CHECK(cost.commands() == commands);
  CHECK(cost.round_trips == round_trips);
  CHECK(cost.aof_bytes <= aof_bytes);
}

}  // namespace

// A page view adds the trend's 40 bytes and their field to what is written. It is a view, too, for
// one more command, and two more if it is the visitor's first of the day. The reports that follow
// in the session cost the same as without views.
TEST_CASE_METHOD(CountingFixture, "Redis cost of a report", "[cost]") {
  const bool counts_views = GENERATE(true, false);
  settings.views.from_track = counts_views;
  const int one_view = counts_views ? 1 : 0;
  SECTION("the first of a session") {
    check_cost(measure([&] { track("w", 1000); }), 6 + 2 * one_view, 480 + 80 * one_view);  // with PFCOUNT
  }
  SECTION("a known visitor in another session") {
    auto again = test::Fixture::track_event("a", "v1", 1000, "another");
    check_cost(measure([&] { REQUIRE(redis::run_sync(hot.track(again))); }), 5 + one_view,
               420 + 80 * one_view);
  }
  SECTION("repeated with more dwell") {
    check_cost(measure([&] { track("v1", 5000); }), 6, 420);
  }
  SECTION("repeated unchanged") {
    check_cost(measure([&] { track("v1", 1000); }), 5, 240);
  }
  SECTION("with an event id") {
    check_cost(measure([&] { track("w", 1000, "e1"); }), 8 + 2 * one_view, 700 + 80 * one_view);
  }
  SECTION("an unknown article") {
    // 50 bytes of it are the versions with which its counters began.
    check_cost(measure([&] { track("w", 1000, {}, "new"); }), 7 + 2 * one_view, 660 + 210 * one_view);
  }
}

TEST_CASE_METHOD(CountingFixture, "Redis cost of a view", "[cost]") {
  SECTION("the first of a visitor on that day") {
    check_cost(measure([&] { view("w"); }), 6, 480);
  }
  SECTION("the first of a visitor, of an article that only clients have dated") {
    const auto seen = [&](const std::string& fingerprint, seconds ago) {
      auto event = test::Fixture::view_event("undated", fingerprint);
      event.admission = {.network = "network", .wide_network = "wide"};
      event.occurred_at = wall_now() - ago;
      REQUIRE(redis::run_sync(hot.view(event)));
    };
    settings.items_unknown = "list";
    for (int i = 0; i < 40; ++i) seen("f" + std::to_string(i), seconds{3000 - 70 * i});
    check_cost(measure([&] { seen("w", seconds{0}); }), 6, 480 + 640);
  }
  SECTION("within the dedup window") {
    check_cost(measure([&] { view("v1"); }), 3, 0);
  }
  SECTION("with an event id") {
    check_cost(measure([&] { view("w", "e1"); }), 8, 660);
  }
}

TEST_CASE_METHOD(CountingFixture, "Redis cost of the asynchronous writes after reports", "[cost]") {
  for (int i = 0; i < 100; ++i) {
    track("w", 1000, {}, "b" + std::to_string(i));
    track("x", 1000, {}, "b" + std::to_string(i));
  }
  settle();
  for (int i = 0; i < 100; ++i) track("y", 1000, {}, "b" + std::to_string(i));
  // Page views change all ranks: six commands for each computed one, five for that of views, and
  // three for each bucket of mode = current.
  const Cost all = measure([&] { deferred_work.rank_updater.flush(); });
  INFO(all.text());
  CHECK(all.commands() == 2 * 6 + 5 + 3);
  settle();
  for (int i = 0; i < 100; ++i) track("w", 2000, {}, "b" + std::to_string(i));
  // Ranking a hundred articles takes six commands, and the visitor's contributions to them four.
  const Cost cost = measure([&] { deferred_work.rank_updater.flush(); });
  INFO(cost.text());
  CHECK(cost.commands() == 6);
  CHECK(cost.aof_bytes < 100 * 80);
  const Cost contributions_cost = measure([&] { deferred_work.contributions.flush(); });
  INFO(contributions_cost.text());
  CHECK(contributions_cost.commands() == 4);
  // Impressions of twenty items on a page of a feed.
  items::ImpressionCounter shown(write_queue, keys);
  std::vector<ItemId> page;
  for (int i = 0; i < 20; ++i) page.push_back(ItemId::trusted("b" + std::to_string(i)));
  shown.add(page);
  const Cost first_page = measure([&] { shown.flush(); });
  INFO(first_page.text());
  CHECK(first_page.commands() == 2 * 20);
  shown.add(page);
  const Cost second_page = measure([&] { shown.flush(); });
  INFO(second_page.text());
  CHECK(second_page.commands() == 20);
}

TEST_CASE_METHOD(CountingFixture, "Redis cost of a list", "[cost]") {
  hot::ListQuery query, tagged;
  tagged.tag = TagName::trusted("news");
  const auto read = [&] {
    const auto list = redis::run_sync(hot.cached_list(query));
    REQUIRE(list);
    return *list;
  };
  auto list = read();
  SECTION("built in this time slice, or to be built") {
    check_cost(measure([&] { read(); }), 7, 0, 2);  // another process is building it
    list.json = "[]";
    list.built_ms = wall_ms().count();
    hot.store_list(query, list);
    const Cost fresh = measure([&] { list = read(); });
    // If not fresh, the time slice has just ended.
    if (list.freshness == hot::CachedList::Freshness::kFresh) check_cost(fresh, 5, 0);
  }
  SECTION("a page of a rank is two reads: members and dates") {
    check_cost(measure([&] { REQUIRE(redis::run_sync(hot.rank_page(query, {}, 100))->items.size() == 1); }),
               2, 0, 2);
  }
  SECTION(
      "a page of a small tag is five commands in four round trips: count, members, ranks, dates and tags") {
    items::Item item;
    item.id = ItemId::trusted("a");
    item.published_at = UnixSeconds{seconds{1700000000}};
    item.tags = {tagged.tag};
    REQUIRE(redis::run_sync(items.put(item)));
    check_cost(measure([&] { REQUIRE(redis::run_sync(hot.rank_page(tagged, {}, 100))->items.size() == 1); }),
               5, 0, 4);
  }
  SECTION("heads of buckets are two reads: members with the index, and dates") {
    const std::int64_t hour = 1700000000 / kHourSeconds;
    check_cost(measure([&] { REQUIRE(redis::run_sync(hot.bucket_heads({{hour}}, 0, 25))->size() == 1); }), 3,
               0, 2);
  }
}
