#include "core/feed/smart_feed.h"

#include <catch2/catch.hpp>

#include "tests/feed/fakes.h"
#include "tests/hot/fakes.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct Site {
  explicit Site(int count = 60) {
    settings.recall.size = 10;
    settings.recall.max_depth = 40;
    for (int i = 0; i < count; ++i) recall.index.push_back(item(i));
  }
  Settings settings;
  FakeItems items;
  items::CardCache cards{items, settings.items_cache_bytes};
  FakeRecall recall;
  FakeFeedStore store{items};
  std::optional<feed::SmartFeed> made;
  feed::SmartFeed& feed() {
    if (!made) made.emplace(store, recall, cards, settings);
    return *made;
  }

  feed::FeedPage ask(feed::FeedAction action, std::size_t limit = 5, std::string request = {},
                     std::string query = {}) {
    const feed::FeedRequest feed_request{kReader, std::move(request), std::move(query), limit, action};
    auto page = run_ready(feed().page(feed_request));
    REQUIRE(page);
    return *page;
  }
  feed::FeedPage refresh(std::size_t limit = 5) { return ask(feed::FeedAction::kRefresh, limit); }
  feed::FeedPage load_more(std::size_t limit = 5) { return ask(feed::FeedAction::kLoadMore, limit); }
  std::optional<std::size_t> peek(std::size_t limit = 5) {
    const feed::FeedRequest feed_request{kReader, {}, {}, limit, feed::FeedAction::kPeek};
    auto count = run_ready(feed().peek(feed_request));
    REQUIRE(count);
    return *count;
  }
};

std::vector<ItemId> ids(const feed::FeedPage& page) {
  std::vector<ItemId> out;
  for (const feed::FeedItem& each : page.items) out.push_back(each.id);
  return out;
}
std::vector<std::string> reasons(const feed::FeedPage& page) {
  std::vector<std::string> out;
  for (const feed::FeedItem& each : page.items) out.push_back(readers::reason_text(each.reason));
  return out;
}
std::vector<ItemId> range(int from, int to) {
  std::vector<ItemId> out;
  for (int i = from; i < to; ++i) out.push_back(item(i));
  return out;
}

}  // namespace

TEST_CASE("a refresh delivers the best items, keeps the rest and records what it showed", "[feed]") {
  Site site;
  const auto page = site.refresh();
  CHECK(ids(page) == range(0, 5));
  CHECK(page.items[0].card->title == "title of i0");
  CHECK_FALSE(page.exhausted);
  CHECK(site.store.buffer == range(5, 10));
  CHECK(site.store.recorded == range(0, 5));
  CHECK(site.store.trips == 2);
  CHECK(site.items.reads == 0);  // the cards came with the swap
}

TEST_CASE("load_more takes one round trip if the cards are cached", "[feed]") {
  Site site;
  site.refresh();
  site.store.trips = 0;
  CHECK(ids(site.load_more()) == range(5, 10));
  CHECK(site.store.trips == 1);
  CHECK(site.items.reads == 0);
}

TEST_CASE("load_more without a buffer refreshes, but not for a short last page", "[feed]") {
  Site site;
  CHECK(ids(site.load_more(7)) == range(0, 7));
  const auto tail = site.load_more(7);
  CHECK(ids(tail) == range(7, 10));
  CHECK_FALSE(tail.exhausted);
  CHECK(ids(site.load_more(7)) == range(10, 17));  // deeper, since the first ten have been delivered
}

TEST_CASE("recall goes deeper while most items are seen, and a feed ends only when it is exhausted",
          "[feed]") {
  Site site(25);
  for (const ItemId& id : range(0, 18)) site.store.seen_items.insert(id);
  const auto page = site.refresh();
  CHECK(ids(page) == range(18, 23));
  CHECK(site.recall.queries.size() == 3);  // 10, 20, 40
  CHECK_FALSE(page.exhausted);
  const auto last = site.load_more();
  CHECK(ids(last) == range(23, 25));
  CHECK(last.exhausted);
  CHECK(site.refresh().exhausted);
  CHECK(site.refresh().items.empty());
}

TEST_CASE("a feed ends when the deepest search finds no unseen item", "[feed]") {
  Site site(100);
  for (const ItemId& id : range(0, 80)) site.store.seen_items.insert(id);
  const auto page = site.refresh();
  CHECK(page.items.empty());
  CHECK(page.exhausted);
  CHECK(site.recall.queries.back().size == 40);
  site.store.seen_items.erase(item(39));
  CHECK(ids(site.refresh()) == range(39, 40));
}

TEST_CASE("a refresh whose budget ends before an unseen item is found serves the newest items", "[feed]") {
  Site site(100);
  site.settings.recall.budget = milliseconds(0);
  for (const ItemId& id : range(0, 80)) site.store.seen_items.insert(id);
  site.store.recent_items = {item(79), item(90)};
  const auto page = site.refresh();
  CHECK(ids(page) == range(90, 91));
  CHECK(page.degraded == Dependency::kIndex);
  CHECK_FALSE(page.exhausted);
  CHECK(site.ask(feed::FeedAction::kRefresh, 5, {}, "words").items.empty());
  site.store.seen_items.erase(item(3));
  CHECK_FALSE(site.refresh().degraded);  // found something
}

TEST_CASE("a refresh whose deeper search fails serves what the searches before it found", "[feed]") {
  Site site(60);
  for (const ItemId& id : range(0, 9)) site.store.seen_items.insert(id);
  site.store.recent_items = range(50, 60);
  site.recall.max_size = 10;
  CHECK(site.peek() == 1);
  const auto page = site.refresh();
  CHECK(ids(page) == range(9, 10));
  CHECK_FALSE(page.degraded);
  CHECK_FALSE(page.exhausted);
  const auto next = site.refresh();  // now the first search finds nothing either
  CHECK(ids(next) == range(50, 55));
  CHECK(next.degraded == Dependency::kIndex);
}

TEST_CASE("recently delivered items are excluded even if the filter does not have them", "[feed]") {
  Site site;
  site.store.delivered = {item(0), item(3)};
  CHECK(ids(site.refresh(3)) == std::vector<ItemId>{item(1), item(2), item(4)});
}

TEST_CASE("a buffered item that has since been seen elsewhere is replaced", "[feed]") {
  Site site;
  site.refresh();
  site.store.seen_items = {item(6), item(7)};
  site.store.external_impressions = true;
  CHECK(ids(site.load_more(3)) == std::vector<ItemId>{item(5), item(8), item(9)});
  CHECK(site.store.withdrawn == std::set<ItemId>{item(6), item(7)});
}

TEST_CASE("the reader's own items are replaced and recorded, so that they do not come again", "[feed]") {
  Site site;
  site.items.authors[item(1)] = kReader.str();
  site.items.authors[item(6)] = "A name";
  site.items.author_ids[item(6)] = "R";
  CHECK(ids(site.refresh(3)) == std::vector<ItemId>{item(0), item(2), item(3)});
  CHECK(std::ranges::count(site.store.recorded, item(1)) == 1);
  CHECK(ids(site.load_more(3)) == std::vector<ItemId>{item(4), item(5), item(7)});
  CHECK(std::ranges::count(site.store.recorded, item(6)) == 1);
}

TEST_CASE(
    "an item that the reader used is recorded with its own date, unless the filter has forgotten that day",
    "[feed]") {
  Site site;
  site.feed().record_use(kReader, item(1), std::nullopt, false);
  site.feed().record_use(kReader, item(2), wall_now() - std::chrono::days(3), false);
  site.feed().record_use(kReader, item(3), wall_now() - std::chrono::days(30), false);
  CHECK(site.store.recorded == std::vector<ItemId>{item(1), item(2)});
}

TEST_CASE("a filter without a view is queried by item, which takes one more round trip", "[feed]") {
  Site site;
  site.store.has_no_view = true;
  site.store.seen_items = {item(0)};
  CHECK(ids(site.refresh(3)) == range(1, 4));
  CHECK(site.store.trips == 3);
  site.store.seen_items.insert(item(4));
  site.store.external_impressions = true;
  CHECK(ids(site.load_more(3)) == range(5, 8));
}

TEST_CASE("an item hidden after it was buffered is replaced and may be shown later", "[feed]") {
  Site site;
  site.refresh();
  site.items.hidden = {item(5)};
  site.cards.invalidate(item(5));
  CHECK(ids(site.load_more(3)) == range(6, 9));
  CHECK(site.store.withdrawn == std::set<ItemId>{item(5)});
  for (const ItemId& id : site.store.recorded) CHECK(id != item(5));
}

TEST_CASE("a page whose items Redis has lost is shown with bare ids", "[feed]") {
  Site site;
  for (const ItemId& id : range(0, 60)) site.items.unknown.insert(id);
  const auto page = site.refresh();
  CHECK(ids(page) == range(0, 5));
  CHECK_FALSE(page.items[0].card->known);
}

TEST_CASE("a replayed page has the same items and is recorded once", "[feed]") {
  Site site;
  const auto first = site.ask(feed::FeedAction::kRefresh, 5, "r.e.1");
  site.store.seen_items = {item(0), item(1)};
  std::size_t shown = 0;
  site.feed().on_impressions([&](std::span<const ItemId> items) { shown += items.size(); });
  const auto again = site.ask(feed::FeedAction::kRefresh, 5, "r.e.1");
  CHECK(ids(again) == ids(first));
  CHECK(again.sequence == first.sequence);
  CHECK(site.store.recorded.size() == 5);
  CHECK(shown == 0);
  site.ask(feed::FeedAction::kLoadMore, 5, "r.e.2");
  CHECK(shown == 5);
}

TEST_CASE("if recall fails the old buffer is kept and served", "[feed]") {
  Site site;
  site.refresh();
  site.recall.unavailable = true;
  const auto page = site.refresh();
  CHECK(page.degraded);
  CHECK(ids(page) == range(5, 10));
  const auto empty = site.refresh();
  CHECK(empty.degraded);
  CHECK_FALSE(empty.exhausted);
  CHECK(empty.items.empty());
}

TEST_CASE("without an index a feed has new and hot items, without duplicates, and is degraded", "[feed]") {
  Site site;
  site.recall.unavailable = true;
  site.store.recent_items = range(0, 8);
  site.store.hot = {item(40), item(41), item(1)};
  site.items.hidden = {item(41)};
  site.items.unknown = {item(2)};
  const auto page = site.refresh();
  CHECK(ids(page) == std::vector<ItemId>{item(0), item(40), item(1), item(3), item(4)});
  CHECK((page.degraded == Dependency::kIndex && !page.exhausted && page.generation == 1));
  CHECK(site.store.recorded.size() == 5);
  CHECK(site.store.buffer.empty());
  const auto next = site.load_more();
  CHECK(ids(next) == range(5, 8));
  CHECK((next.degraded == Dependency::kIndex && !next.exhausted));
  site.recall.unavailable = false;
  CHECK_FALSE(site.refresh().degraded);
}

TEST_CASE("a text search is not answered with hot items", "[feed]") {
  Site site;
  site.recall.unavailable = true;
  site.store.recent_items = range(0, 8);
  const auto page = site.ask(feed::FeedAction::kRefresh, 5, {}, "words");
  CHECK((page.items.empty() && page.degraded == Dependency::kIndex && !page.exhausted));
}

TEST_CASE("without writes and without an index a feed has new and hot items", "[feed]") {
  Site site;
  site.recall.unavailable = true;
  site.store.recent_items = range(0, 8);
  site.store.seen_items = {item(0)};
  for (int times = 0; times < 2; ++times) {
    const feed::FeedRequest feed_request{kReader, "again", {}, 3, feed::FeedAction::kRefresh, {}, false};
    const auto page = run_ready(site.feed().page(feed_request));
    REQUIRE(page);
    CHECK(ids(*page) == range(1, 4));
    CHECK((page->degraded == Dependency::kIndex && page->generation == 0));
  }
  CHECK(site.store.recorded.empty());
}

TEST_CASE("without Redis a page is empty, degraded and not exhausted", "[feed]") {
  Site site;
  site.store.unavailable = true;
  for (const auto action : {feed::FeedAction::kRefresh, feed::FeedAction::kLoadMore}) {
    const auto page = site.ask(action);
    CHECK(page.items.empty());
    CHECK(page.degraded);
    CHECK_FALSE(page.exhausted);
  }
  CHECK(site.peek() == std::nullopt);
}

TEST_CASE("too many unacknowledged impressions are an error, not a degraded page", "[feed]") {
  Site site;
  site.store.full = true;
  const feed::FeedRequest feed_request{kReader, {}, {}, 5};
  const auto page = run_ready(site.feed().page(feed_request));
  REQUIRE_FALSE(page);
  CHECK(error_of(page).reason == "too_many_pending");
}

TEST_CASE("peek counts what a refresh would add and changes nothing", "[feed]") {
  Site site;
  CHECK(site.peek() == 5);
  CHECK(site.store.recorded.empty());
  CHECK(site.store.delivered.empty());
  site.refresh();
  CHECK(site.peek() == 0);  // everything is in the buffer already
  site.recall.index.insert(site.recall.index.begin(), item(100));
  site.recall.index.insert(site.recall.index.begin(), item(101));
  CHECK(site.peek() == 2);
}

TEST_CASE("items that trend move up in a refresh by interests, and only the recalled ones", "[feed]") {
  std::vector<feed::Candidate> candidates;
  for (int i = 0; i < 5; ++i) candidates.push_back({item(i), 1 - 0.01 * i, {}});
  candidates.push_back({item(5), 0, {}});
  const std::vector<ItemId> hot{item(9), item(4), item(5), item(2)};
  const auto order = [&](double weight) {
    std::vector<feed::Candidate> ordered = candidates;
    feed::order_by_trend(ordered, hot, weight);
    std::vector<int> out;
    for (const feed::Candidate& each : ordered) out.push_back(std::stoi(each.item.str().substr(1)));
    return out;
  };
  CHECK(order(0) == std::vector{0, 1, 2, 3, 4, 5});
  CHECK(order(0.04) == std::vector{2, 0, 4, 1, 3, 5});  // factors 1 + .04 / 1.1 and 1 + .04 / 1.3
  CHECK(order(1) == std::vector{4, 2, 0, 1, 3, 5});
  Site site;
  site.settings.recall.trend_weight = 1;
  site.store.interests = {{item(30)}};
  site.store.hot = {item(99), item(7)};
  CHECK(ids(site.refresh(3)) == std::vector<ItemId>{item(7), item(0), item(1)});
  REQUIRE(site.recall.queries.size() == 1);
  CHECK(site.recall.queries[0].interest_weight == site.settings.recall.interest_weight);
}

TEST_CASE("a reader without interests gets fresh and hot items alternately", "[feed]") {
  Site site;
  site.store.hot = {item(40), item(1), item(41)};
  CHECK(ids(site.refresh(6)) == std::vector<ItemId>{item(0), item(40), item(1), item(2), item(41), item(3)});
  CHECK(site.recall.queries.back().interest_weight == 0);  // scores of the newest items are not needed
  site.store.interests = {{item(7), 1}, {item(8), 1}};
  site.refresh();
  const auto& query = site.recall.queries.back();
  REQUIRE(query.interests.size() == 2);
  CHECK(query.interests[0].weight > query.interests[1].weight);
}

TEST_CASE("hot articles that are unknown or hidden are neither shown nor counted", "[feed]") {
  Site site(3);
  site.store.hot = {item(40), item(1), item(41)};
  site.items.unknown = {item(40)};
  site.items.hidden = {item(41)};
  CHECK(site.peek(10) == 3);
  CHECK(ids(site.refresh(10)) == range(0, 3));
}

TEST_CASE("an item is on no page before its date, whether from the rank, recall or the buffer", "[feed]") {
  const UnixSeconds now{seconds{1'800'000'000}};
  Site site(6);
  site.made.emplace(site.store, site.recall, site.cards, site.settings, [=] { return now; });
  site.store.hot = {item(41), item(42)};
  for (const int i : {1, 4, 41}) site.items.dates[item(i)] = now + seconds{1};
  for (const int i : {2, 5, 42}) site.items.dates[item(i)] = now;
  CHECK(ids(site.refresh(3)) == std::vector<ItemId>{item(0), item(42), item(2)});
  CHECK(ids(site.load_more(10)) == std::vector<ItemId>{item(3), item(5)});
}

TEST_CASE("lost impressions are recorded again with their own date", "[feed]") {
  Site site;
  site.store.unacknowledged = {{{1, {item(50)}}, UnixSeconds(seconds(86400 * 20000 + 5))}};
  const auto times = [&] {
    return std::count(site.store.recorded.begin(), site.store.recorded.end(), item(50));
  };
  site.refresh();
  CHECK(times() == 1);
  site.load_more();
  CHECK(times() == 2);
}

TEST_CASE("the filter is not queried for a buffered page unless impressions were recorded elsewhere",
          "[feed]") {
  Site site;
  site.refresh();
  site.store.seen_items = {item(5)};  // a false positive
  site.store.trips = 0;
  CHECK(ids(site.load_more(3)) == range(5, 8));
  CHECK(site.store.trips == 1);
}

TEST_CASE("a refresh that was overtaken restarts, and gives up after some attempts", "[feed]") {
  Site site;
  site.store.reloads_needed = 2;
  CHECK(ids(site.refresh()) == range(0, 5));
  site.store.reloads_needed = 10;
  CHECK(site.refresh().degraded);
}

TEST_CASE("without writes a refresh shows the best unseen items, the same each time", "[feed]") {
  Site site;
  site.items.hidden = {item(2)};
  site.store.seen_items = {item(0)};
  const feed::FeedRequest feed_request{kReader, "again", {}, 3, feed::FeedAction::kRefresh, {}, false};
  for (int times = 0; times < 2; ++times) {
    const auto page = run_ready(site.feed().page(feed_request));
    REQUIRE(page);
    CHECK(ids(*page) == std::vector<ItemId>{item(1), item(3), item(4)});
    CHECK((page->degraded && !page->exhausted && page->generation == 0));
  }
  CHECK(site.store.generation == 0);
  CHECK(site.store.recorded.empty());
  CHECK(site.store.pages.empty());
}

TEST_CASE("without writes load_more continues an existing buffer and creates none", "[feed]") {
  Site site;
  const feed::FeedRequest feed_request{kReader, {}, {}, 5, feed::FeedAction::kLoadMore, {}, false};
  const auto none = run_ready(site.feed().page(feed_request));
  REQUIRE(none);
  CHECK((none->items.empty() && none->degraded && none->exhausted && site.store.generation == 0));
  site.refresh();
  const auto page = run_ready(site.feed().page(feed_request));
  REQUIRE(page);
  CHECK(ids(*page) == range(5, 10));
  CHECK_FALSE(page->degraded);
}

// --- reasons

TEST_CASE("each item of a feed has a reason in the reader's own terms", "[feed][reason]") {
  Site site;
  const UnixSeconds today = wall_now() - seconds{60};
  const auto put = [&](int number, const char* author, std::vector<std::string> tags, UnixSeconds date) {
    site.items.authors[item(number)] = author;
    site.items.tags[item(number)] = std::move(tags);
    site.items.dates[item(number)] = date;
  };
  put(50, "ann", {"news"}, {});
  put(51, "bob", {"rust", "web"}, {});
  put(0, "ann", {"food"}, {});
  put(1, "cid", {"news"}, today);
  put(2, "bob", {"web", "rust", "go"}, today);
  put(3, "cid", {"food"}, today);
  put(4, "cid", {"news"}, {});
  put(5, "cid", {"food"}, today);
  put(6, "cid", {"food"}, {});
  site.settings.recall.trend_weight = 0;
  site.store.hot = {item(3)};
  site.store.interests = {{item(51), 1, readers::Interaction::kView},
                          {item(50), 3, readers::Interaction::kFavorite}};
  const std::vector<std::string> wanted = {
      "by ann, whose work you liked",
      "new in news",
      "like “title of i51”, which you read",  // views contribute neither authors nor tags
      "rising now",
      "like “title of i50”, which you favourited",
      "new",
      "more to read",
  };
  SECTION("the first page of a refresh") { CHECK(reasons(site.refresh(7)) == wanted); }
  SECTION("pages from the buffer, with the titles of the first page's interests") {
    site.refresh(1);
    const int trips = site.store.trips + site.items.reads;
    CHECK(reasons(site.load_more(6)) == std::vector<std::string>(wanted.begin() + 1, wanted.end()));
    CHECK(site.store.trips + site.items.reads - trips <= 2);
  }
  SECTION("a replayed page") {
    site.ask(feed::FeedAction::kRefresh, 7, "r.e.1");
    CHECK(reasons(site.ask(feed::FeedAction::kRefresh, 7, "r.e.1")) == wanted);
  }
  SECTION("a refresh without writes") {
    const feed::FeedRequest feed_request{kReader, {}, {}, 7, feed::FeedAction::kRefresh, {}, false};
    CHECK(reasons(run_ready(site.feed().page(feed_request)).value()) == wanted);
  }
  SECTION("hidden items are not named") {
    site.items.hidden = {item(51)};
    CHECK(reasons(site.refresh(7))[2] == "new");
  }
  SECTION("a text search is the reason") {
    for (const std::string& each : reasons(site.ask(feed::FeedAction::kRefresh, 7, {}, "rust")))
      CHECK(each == "matches your search");
  }
}
