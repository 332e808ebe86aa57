#include "core/hot/hot_lists.h"

#include <catch2/catch.hpp>

#include "core/base/json.h"
#include "tests/hot/fakes.h"

using namespace freshet;
using namespace freshet::test;
using hot::CachedList;
using hot::HotLists;

namespace {

struct Fixture {
  FakeHotStore hot;
  FakeItemStore items;
  Settings settings;
  items::CardCache cards{items, settings.items_cache_bytes};
  HotLists lists{hot, cards, settings};
  HotLists::Clock::time_point start = HotLists::Clock::now();

  Result<hot::ServedList> get(milliseconds after = milliseconds(0)) {
    return run_ready(lists.get({}, start + after));
  }
  void set_cached_list(std::string json) {
    hot.cached = {CachedList::Freshness::kFresh, std::move(json), false, 0, "1"};
  }
  void make_redis_unavailable() {
    hot.failing = true;
    hot.error = Error{ErrorCode::kUnavailable, "redis_unavailable", {}, {}};
  }
};

constexpr const char* kTwoItems = "[{\"id\":\"a\",\"score\":2},\n{\"id\":\"b\",\"score\":1}]";

}  // namespace

TEST_CASE("A list is truncated to its limit without being parsed", "[lists]") {
  const hot::HotList list(kTwoItems);
  CHECK(list.size() == 2);
  CHECK(list.first(1) == "[{\"id\":\"a\",\"score\":2}]");
  CHECK(list.first(2) == kTwoItems);
  CHECK(list.first(100) == kTwoItems);
  CHECK(hot::HotList("[]").first(10) == "[]");
  CHECK(list.etag(1) != list.etag(2));
  CHECK(list.etag(1) == hot::HotList(kTwoItems).etag(1));
  CHECK(list.etag(1) != hot::HotList("[{\"id\":\"a\",\"score\":3},\n{}]").etag(1));
}

TEST_CASE("A rendered list is JSON and truncated between elements, whatever a title contains", "[lists]") {
  items::ItemCard card;
  card.known = true;
  card.title = "a \"title\",\nwith ]},\n{ everything";
  card.visible_from = UnixSeconds{seconds{1700000000}};
  const std::string json =
      hot::render({{ItemId::trusted("x"), 1.5, std::make_shared<const items::ItemCard>(card)},
                   {ItemId::trusted("y"), 0.1, nullptr}},
                  UnixSeconds{seconds{1700000100}});
  const hot::HotList list(json);
  CHECK(list.size() == 2);
  std::string first = list.first(1);
  json::Document document;
  REQUIRE(document.parse(first));
  CHECK(document.root().elements()[0]["title"].text() == card.title);
  CHECK(list.first(1).find("\"published_at\":1700000000,\"age\":100}") != std::string::npos);
  CHECK(json.find("published_at", first.size()) == std::string::npos);  // y has no known publish time
}

TEST_CASE("All ages change once a minute, together, and none is negative", "[lists]") {
  std::vector<hot::ListEntry> items;
  for (const std::int64_t published : {1699999979, 1700000000, 1700000039, 1700000041}) {
    items::ItemCard card;
    card.known = true;
    card.visible_from = UnixSeconds{seconds{published}};
    items.push_back({ItemId::trusted("x"), 1, std::make_shared<const items::ItemCard>(card)});
  }
  const auto at = [&](std::int64_t now) { return hot::render(items, UnixSeconds{seconds{now}}); };
  const auto ages = [&](std::int64_t now) {
    json::Document document;
    std::string list = at(now);
    REQUIRE(document.parse(list));
    std::vector<std::int64_t> found;
    for (const json::Value item : document.root().elements()) found.push_back(item["age"].integer().value());
    return found;
  };
  CHECK(ages(1700000040) == std::vector<std::int64_t>{61, 40, 1, 0});  // a full minute
  CHECK(at(1700000040) == at(1700000099));
  CHECK(ages(1700000100) == std::vector<std::int64_t>{121, 100, 61, 59});
}

TEST_CASE("A worker sends no request to Redis while its snapshot is fresh", "[lists]") {
  Fixture f;
  f.set_cached_list(kTwoItems);
  CHECK(f.get()->list->size() == 2);
  CHECK(f.get(milliseconds(999))->list->size() == 2);
  CHECK(f.hot.cached_reads == 1);
  f.get(milliseconds(1001));
  CHECK(f.hot.cached_reads == 2);
}

TEST_CASE("A snapshot expires when an embargoed item is due", "[lists]") {
  Fixture f;
  f.set_cached_list(kTwoItems);
  f.hot.cached.expires_in = milliseconds(400);
  f.get();
  f.get(milliseconds(399));
  CHECK(f.hot.cached_reads == 1);
  f.hot.cached.expires_in = milliseconds(5000);
  f.get(milliseconds(400));
  CHECK(f.hot.cached_reads == 2);
  f.get(milliseconds(1399));
  CHECK(f.hot.cached_reads == 2);
  f.get(milliseconds(1400));
  CHECK(f.hot.cached_reads == 3);
}

TEST_CASE("The current list leaves out embargoed items", "[lists]") {
  Fixture f;
  f.hot.cached = {CachedList::Freshness::kMustBuild, "", false, 0, "1"};
  f.hot.members = {{ItemId::trusted("ahead"), 9, wall_now() + seconds{3600}},
                   {ItemId::trusted("now"), 3, wall_now() - seconds{1}}};
  const hot::ListQuery query{&hot::kViewsModel, hot::ViewsMode::kCurrent, {}, {}};
  const auto served = run_ready(f.lists.get(query, f.start));
  REQUIRE(served);
  CHECK(served->list->size() == 1);
  CHECK(served->list->first(1).find("\"now\"") != std::string::npos);
}

TEST_CASE("The process that holds the lock builds and stores the list; others do not store theirs",
          "[lists]") {
  Fixture f;
  f.hot.rank = {{ItemId::trusted("a"), 3.0}};
  f.hot.cached = {CachedList::Freshness::kMustBuild, "", false, 0, "1"};
  CHECK(f.get()->list->first(1) == "[{\"id\":\"a\",\"score\":3}]");
  CHECK(f.hot.stored == 1);
  Fixture other;
  other.hot.rank = f.hot.rank;
  other.hot.cached = {CachedList::Freshness::kStale, "", false, 0, "1"};
  CHECK(other.get()->list->size() == 1);
  CHECK(other.hot.stored == 0);
}

TEST_CASE("A list without a hot article has the newest items, and says so to all workers", "[lists]") {
  Fixture f;
  const auto now = static_cast<double>(unix_s(wall_now()));
  f.hot.newest = {{ItemId::trusted("embargoed"), now + 3600},
                  {ItemId::trusted("b"), now - 5},
                  {ItemId::trusted("a"), now - 9}};
  f.hot.cached = {CachedList::Freshness::kMustBuild, "", false, 0, "1"};
  hot::ListQuery query{&hot::kEngagementModel, {}, {}, {}};
  const auto get = [&](HotLists& lists) {
    auto served = run_ready(lists.get(query, f.start));
    REQUIRE(served);
    return *served;
  };
  const auto served = get(f.lists);
  CHECK(served.list->below_floor());
  CHECK(served.list->first(10) == "[{\"id\":\"b\",\"score\":0},\n{\"id\":\"a\",\"score\":0}]");
  CHECK(f.hot.stored == 1);
  HotLists other_worker(f.hot, f.cards, f.settings);
  CHECK(get(other_worker).list->below_floor());
  CHECK(f.hot.stored == 1);
  const auto later = run_ready(f.lists.build_at(query, wall_now() + seconds{7200}));
  REQUIRE(later);
  CHECK(later->list->size() == 2);  // the list of a later time publishes no embargoed item

  // Not if an article is hot, for a window, or for scores that do not fall below the minimum.
  f.hot.cached = {CachedList::Freshness::kMustBuild, "", true, 0, "1"};
  SECTION("a hot article") {
    f.hot.rank = {{ItemId::trusted("hot"), hot::rank_key(4, wall_now(), seconds{86400})}};
    HotLists worker(f.hot, f.cards, f.settings);
    CHECK_FALSE(get(worker).list->below_floor());
    CHECK(get(worker).list->size() == 1);
    CHECK_FALSE(f.hot.cached.below_floor);
  }
  SECTION("a window") {
    query.window = seconds{86400};
    CHECK(get(f.lists).list->size() == 0);
    CHECK_FALSE(get(f.lists).list->below_floor());
  }
  SECTION("the model views") {
    query.model = &hot::kViewsModel;
    CHECK(get(f.lists).list->size() == 0);
    CHECK_FALSE(get(f.lists).list->below_floor());
  }
  SECTION("no items") {
    f.hot.newest.clear();
    HotLists worker(f.hot, f.cards, f.settings);
    CHECK(get(worker).list->size() == 0);
    CHECK_FALSE(get(worker).list->below_floor());
  }
}

TEST_CASE("After an item was hidden, the old snapshot is served only while Redis is unavailable", "[lists]") {
  Fixture f;
  f.set_cached_list(kTwoItems);
  f.get();
  f.set_cached_list("[{\"id\":\"b\",\"score\":1}]");
  f.lists.invalidate(false);
  CHECK(f.get()->list->first(10) == "[{\"id\":\"b\",\"score\":1}]");
  f.lists.invalidate(false);
  f.make_redis_unavailable();
  const auto served = f.get();
  REQUIRE(served);
  CHECK(served->degraded);
  CHECK(served->list->size() == 1);
}

TEST_CASE("While a rank is rebuilt, the old list is served without what was hidden meanwhile", "[lists]") {
  Fixture f;
  const hot::ListQuery query{&hot::kEngagementModel, {}, {}, {}};
  f.set_cached_list(kTwoItems);
  REQUIRE(run_ready(f.lists.get(query, f.start)));
  f.hot.cached = {CachedList::Freshness::kMustBuild, "", false, 0, "2"};
  f.hot.rank = {{ItemId::trusted("b"), 1e300}};  // not a score with the current half-life
  f.items.hidden = {"a"};
  const bool messages_lost = GENERATE(true, false), is_later = GENERATE(true, false);
  f.lists.invalidate(messages_lost);
  const auto read = [&](milliseconds after) {
    const auto served = run_ready(is_later ? f.lists.build_at(query, wall_now() + seconds{60})
                                           : f.lists.get(query, f.start + after));
    REQUIRE(served);
    CHECK(served->degraded);
    return served->list->first(10);
  };
  SECTION("Redis has the items") {
    CHECK(read(milliseconds(0)) == "[{\"id\":\"b\",\"score\":1}]");
    CHECK(read(milliseconds(1)) == "[{\"id\":\"b\",\"score\":1}]");
    f.items.hidden = {"b"};
    f.cards.invalidate_all();
    f.lists.invalidate(messages_lost);
    CHECK(read(milliseconds(2000)) == "[]");
  }
  SECTION("Redis has become unavailable") {
    const std::vector<ItemId> ranked{ItemId::trusted("b")};
    REQUIRE(run_ready(f.cards.get(ranked)));
    f.items.failing = true;
    CHECK(read(milliseconds(0)) == kTwoItems);
  }
}

TEST_CASE("Without Redis and without a snapshot the list is empty and degraded", "[lists]") {
  Fixture f;
  f.make_redis_unavailable();
  const auto served = f.get();
  REQUIRE(served);
  CHECK(served->degraded);
  CHECK(served->list->first(10) == "[]");
}

TEST_CASE("Concurrent requests without a snapshot share one refresh", "[lists]") {
  Fixture f;
  f.set_cached_list(kTwoItems);
  f.hot.hold = true;
  int served = 0;
  for (int i = 0; i < 50; ++i) {
    spawn(
        [](Fixture& fixture, int& done) -> Task<void> {
          const hot::ListQuery query;
          auto reading = fixture.lists.get(query, fixture.start);
          const auto list = co_await reading;
          if (list && list->list->size() == 2) ++done;
        }(f, served),
        [](std::exception_ptr) {});
  }
  CHECK(served == 0);
  f.hot.resume_held();
  CHECK(served == 50);
  CHECK(f.hot.cached_reads == 1);
}

TEST_CASE("A list that takes too long to build is not built again for ten seconds", "[lists]") {
  Fixture f;
  f.settings.gateway.request_budget = milliseconds(-1);  // every build runs out of time
  const bool has_lock = GENERATE(true, false);
  f.hot.cached = {has_lock ? CachedList::Freshness::kMustBuild : CachedList::Freshness::kStale, "", false, 0,
                  "1"};
  for (const milliseconds after : {milliseconds(0), milliseconds(1), milliseconds(9999)}) {
    const auto served = f.get(after);
    REQUIRE(served);
    CHECK(served->degraded);
    CHECK(served->list->first(10) == "[]");
  }
  CHECK(f.hot.cached_reads == 1);
  CHECK(f.hot.marked_slow == (has_lock ? 1 : 0));
  f.settings.gateway.request_budget = seconds(200);
  f.hot.rank = {{ItemId::trusted("a"), 3.0}};
  const auto served = f.get(seconds(10));
  REQUIRE(served);
  CHECK_FALSE(served->degraded);
  CHECK(served->list->size() == 1);
}

TEST_CASE("A list that is too slow for another process is not built, but an old one is served", "[lists]") {
  Fixture f;
  f.hot.rank = {{ItemId::trusted("a"), 3.0}};
  f.hot.cached = {CachedList::Freshness::kTooSlow, "", false, 0, "1"};
  for (const milliseconds after : {milliseconds(0), milliseconds(999)}) {
    const auto served = f.get(after);
    REQUIRE(served);
    CHECK(served->degraded);
    CHECK(served->list->first(10) == "[]");
  }
  CHECK(f.hot.pages == 0);
  CHECK(f.hot.cached_reads == 1);
  CHECK(f.hot.marked_slow == 0);
  f.hot.cached.json = kTwoItems;
  const auto old = f.get(seconds(1));
  REQUIRE(old);
  CHECK_FALSE(old->degraded);
  CHECK(old->list->size() == 2);
  f.lists.invalidate(false);  // an item was hidden
  f.hot.cached.json = "";
  const auto after = f.get(seconds(2));
  REQUIRE(after);
  CHECK(after->degraded);
  CHECK(after->list->size() == 0);
}

TEST_CASE("While a list is too slow to build, its snapshot is served unless an item was hidden", "[lists]") {
  Fixture f;
  f.set_cached_list(kTwoItems);
  f.get();
  f.settings.gateway.request_budget = milliseconds(-1);
  f.hot.cached = {CachedList::Freshness::kMustBuild, "", false, 0, "1"};
  f.get(seconds(2));
  const auto old = f.get(seconds(3));
  REQUIRE(old);
  CHECK(old->degraded);
  CHECK(old->list->size() == 2);
  f.lists.invalidate(false);
  const auto after = f.get(seconds(4));
  REQUIRE(after);
  CHECK(after->degraded);
  CHECK(after->list->size() == 0);
  CHECK(f.hot.cached_reads == 2);
}

TEST_CASE("A worker stores a limited number of lists with a tag or a window in Redis", "[lists]") {
  Fixture f;
  bool is_memory_scarce = false;
  HotLists lists(f.hot, f.cards, f.settings, [&] { return is_memory_scarce; });
  f.hot.rank = {{ItemId::trusted("a"), 3.0}};
  int number = 0;
  const auto get = [&](hot::ListQuery query, milliseconds after) {
    f.hot.cached = {CachedList::Freshness::kMustBuild, "", false, 0, "1"};
    const auto served = run_ready(lists.get(query, f.start + after));
    REQUIRE(served);
    CHECK_FALSE(served->degraded);
    CHECK(served->list->size() == 1);
  };
  const auto get_tag = [&](milliseconds after) {
    get({&hot::kViewsModel, {}, {}, TagName::trusted("tag" + std::to_string(++number))}, after);
  };
  const int limit = static_cast<int>(hot::kMaxFilteredStores);
  get({&hot::kViewsModel, {}, seconds{86400}, {}}, milliseconds(0));
  for (int i = 0; i < limit + 50; ++i) get_tag(milliseconds(i));
  CHECK(f.hot.stored == limit);
  get({}, seconds(30));  // the list of all articles is not limited
  CHECK(f.hot.stored == limit + 1);
  get_tag(f.settings.list.ttl);  // the first store is as old as a list in Redis becomes
  CHECK(f.hot.stored == limit + 2);
  get_tag(f.settings.list.ttl + milliseconds(500));
  CHECK(f.hot.stored == limit + 3);

  is_memory_scarce = true;
  get_tag(f.settings.list.ttl + milliseconds(600));
  CHECK(f.hot.stored == limit + 3);
  get({}, seconds(120));
  CHECK(f.hot.stored == limit + 4);
}

TEST_CASE("An empty list of a tag is stored only if it took several pages of a rank", "[lists]") {
  Fixture f;
  f.hot.empty_pages = GENERATE(0, 1);
  f.hot.cached = {CachedList::Freshness::kMustBuild, "", false, 0, "1"};
  const hot::ListQuery query{&hot::kViewsModel, {}, seconds{86400}, TagName::trusted("t")};
  const auto served = run_ready(f.lists.get(query, f.start));
  REQUIRE(served);
  CHECK_FALSE(served->degraded);
  CHECK(served->list->first(10) == "[]");
  CHECK(f.hot.stored == f.hot.empty_pages);
}

TEST_CASE("The current list of a tag that no item has reads no bucket", "[lists]") {
  Fixture f;
  f.hot.tag_has_items = GENERATE(true, false);
  f.hot.cached = {CachedList::Freshness::kMustBuild, "", false, 0, "1"};
  f.hot.members = {{ItemId::trusted("a"), 3, wall_now() - seconds{1}}};
  const hot::ListQuery query{&hot::kViewsModel, hot::ViewsMode::kCurrent, {}, TagName::trusted("t")};
  const auto served = run_ready(f.lists.get(query, f.start));
  REQUIRE(served);
  CHECK_FALSE(served->degraded);
  CHECK(served->list->first(10) == "[]");
  CHECK(f.hot.bucket_reads == (f.hot.tag_has_items ? 1 : 0));
}
