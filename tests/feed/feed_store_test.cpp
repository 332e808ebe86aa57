// The scripts behind the feed, on a real Redis: what they keep, for how long, and who wins.
#include "core/feed/feed_store.h"

#include <catch2/catch.hpp>
#include <thread>

#include "core/base/fingerprint.h"
#include "core/items/item_store.h"
#include "core/redis/scripts.h"
#include "core/redis/sync_redis.h"
#include "tests/feed/exact_filter.h"
#include "tests/support/redis_server.h"

using namespace freshet;

namespace {

const ReaderId kReader = ReaderId::trusted("r");

class AtOnce final : public redis::Deferred {
 public:
  explicit AtOnce(redis::SyncRedis& inner) : inner_(inner) {}
  bool post(redis::Pipeline pipeline) override {
    if (!lost) REQUIRE(inner_.call(pipeline));
    return true;
  }
  Result<void> spool(redis::Pipeline pipeline) override {
    post(std::move(pipeline));
    return {};
  }
  bool lost = false;

 private:
  redis::SyncRedis& inner_;
};

struct Site {
  Site() : keys("p:") {
    settings.feed.max_pending = 100;
    server.flush();
  }
  static test::RedisServer& running() {
    static test::RedisServer one;
    return one;
  }
  test::RedisServer& server = running();
  Settings settings;
  redis::Keys keys;
  redis::SyncRedis redis{server.endpoint(), milliseconds(5000), redis::kAllScripts};
  AtOnce deferred{redis};
  test::ExactFilter filter;
  items::RedisItemStore items{redis, settings, keys};
  std::optional<feed::RedisFeedStore> made;

  feed::RedisFeedStore& feed() {
    if (!made) made.emplace(redis, deferred, filter, settings, keys);
    return *made;
  }
  feed::PageRequest page(std::size_t limit, std::string request = {}, std::string query = {}) const {
    return {kReader, std::move(request), std::move(query), limit};
  }
  feed::Opening open(const std::string& request = {}) {
    auto opened = redis::wait(feed().open(page(5, request), false));
    REQUIRE(opened);
    return *opened;
  }
  feed::Page swap(feed::Opening opened, std::vector<ItemId> candidates, bool exhausted = false,
                  std::size_t limit = 5, std::string request = {}, std::string query = {}) {
    const feed::Refill refill{opened.generation, opened.moves, std::move(candidates), exhausted, {}};
    auto swapped = redis::wait(feed().swap(page(limit, std::move(request), std::move(query)), refill));
    REQUIRE(swapped);
    return swapped->page;
  }
  feed::Taken take(std::size_t limit, std::string request = {}, std::string query = {}) {
    auto taken = redis::wait(feed().take(page(limit, std::move(request), std::move(query))));
    REQUIRE(taken);
    return *taken;
  }
  void record(const feed::Page& from, const std::vector<ItemId>& shown) {
    feed().record(kReader, {{from.generation, from.moves, from.items}}, shown, wall_now());
  }
  std::int64_t integer(auto... words) {
    redis::Pipeline command;
    command.add(words...);
    auto replies = redis.call(command);
    REQUIRE(replies);
    auto value = replies->front().integer();
    REQUIRE(value);
    return *value;
  }
  void hide(int number, bool hidden = true, UnixSeconds published = UnixSeconds{seconds{1700000000}}) {
    items::Item item;
    item.id = ItemId::trusted("i" + std::to_string(number));
    item.title = "t";
    item.published_at = published;
    item.hidden = hidden;
    REQUIRE(redis::wait(items.put(item)));
  }
};

std::int64_t unix_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<milliseconds>(now).count();
}

std::vector<ItemId> range(int from, int to) {
  std::vector<ItemId> out;
  for (int i = from; i < to; ++i) out.push_back(ItemId::trusted("i" + std::to_string(i)));
  return out;
}

}  // namespace

TEST_CASE("a swap hands out the first page and keeps the rest for half an hour", "[feed]") {
  Site site;
  const auto page = site.swap({}, range(0, 12));
  CHECK(page.items == range(0, 5));
  CHECK(page.generation > 1700000000000);
  CHECK(page.sequence == 1);
  CHECK(page.buffered);
  CHECK_FALSE(page.exhausted);
  for (const auto& key : {site.keys.feed_cache("r"), site.keys.feed_state("r")}) {
    const auto ttl = site.integer("TTL", key);
    CHECK((ttl > 1790 && ttl <= 1800));
  }
  const auto ttl = site.integer("TTL", site.keys.feed_pending("r"));
  CHECK((ttl > 8 * 86400 - 10 && ttl <= 8 * 86400));
  const auto next = site.take(5);
  CHECK(next.page.items == range(5, 10));
  CHECK(next.page.sequence == 2);
  CHECK(next.page.generation == page.generation);
  CHECK(site.take(5).page.items == range(10, 12));
  CHECK(site.take(5).state == feed::Taken::State::kEmpty);
}

TEST_CASE("the last page of a buffer after which recall had no more is the end", "[feed]") {
  Site site;
  CHECK_FALSE(site.swap({}, range(0, 7), true).exhausted);
  CHECK(site.take(5).page.exhausted);
  const auto opened = site.open();
  CHECK(site.swap(opened, {}, true).exhausted);
}

TEST_CASE("the second of two refreshes that saw the same generation takes its page from the first's buffer",
          "[feed]") {
  Site site;
  CHECK(site.swap({}, range(0, 20)).items == range(0, 5));
  const auto second = site.swap({}, range(0, 20));
  CHECK(second.items == range(5, 10));
  CHECK(second.sequence == 2);
  CHECK(site.integer("LLEN", site.keys.feed_cache("r")) == 10);
}

TEST_CASE("a refresh of another query replaces the buffer, and its load_more wants that query", "[feed]") {
  Site site;
  site.swap({}, range(0, 10));
  CHECK(site.swap({}, range(20, 30), false, 5, {}, "q").items == range(20, 25));
  CHECK(site.take(5).state == feed::Taken::State::kEmpty);
  CHECK(site.take(5, {}, "q").page.items == range(25, 30));
}

TEST_CASE("what was handed out by another request between opening and swap is not handed out again",
          "[feed]") {
  Site site;
  site.swap({}, range(0, 10));
  const auto opened = site.open();
  const auto second = site.take(5);
  CHECK(second.page.items == range(5, 10));
  site.record(second.page, range(5, 10));  // acknowledged, so only the last minute's memory has it
  CHECK(site.swap(opened, range(5, 20)).items == range(10, 15));
}

TEST_CASE("hidden items are skipped and the page is filled from behind them", "[feed]") {
  Site site;
  site.hide(1);
  site.hide(7);
  CHECK(site.swap({}, range(0, 12), false, 3).items ==
        std::vector<ItemId>{range(0, 1)[0], range(2, 3)[0], range(3, 4)[0]});
  CHECK(site.take(4).page.items ==
        std::vector<ItemId>{range(4, 5)[0], range(5, 6)[0], range(6, 7)[0], range(8, 9)[0]});
}

TEST_CASE("an item that was dated ahead meanwhile is skipped until its date", "[feed]") {
  Site site;
  const UnixSeconds date = wall_now() + seconds{2};
  for (const int number : {1, 7}) site.hide(number, false, date);
  CHECK(site.swap({}, range(0, 12), false, 3).items ==
        std::vector<ItemId>{range(0, 1)[0], range(2, 3)[0], range(3, 4)[0]});
  while (wall_now() < date) std::this_thread::sleep_for(milliseconds{5});
  CHECK(site.take(4).page.items == range(4, 8));
}

TEST_CASE("the same request within a minute gives the same page, and leaves the buffer alone", "[feed]") {
  Site site;
  const auto first = site.swap({}, range(0, 12), false, 3, "r.e.1");
  const auto again = site.swap({}, range(50, 60), false, 3, "r.e.1");
  CHECK(again.items == first.items);
  CHECK(again.replay);
  CHECK(site.open("r.e.1").replay->items == first.items);
  const auto second = site.take(3, "m.p.1");
  CHECK(site.take(3, "m.p.1").page.items == second.page.items);
  CHECK(site.take(3, "m.p.1").page.replay);
  CHECK(site.take(3).page.items == range(6, 9));
  const auto ttl = site.integer("TTL", site.keys.feed_page("r", "m.p.1"));
  CHECK((ttl > 55 && ttl <= 60));
}

TEST_CASE("a refilled page is remembered as it was served", "[feed]") {
  Site site;
  site.swap({}, range(0, 20), false, 3);
  auto taken = site.take(3, "m.p.1");
  feed::Page kept = taken.page;
  kept.items = {kept.items[0]};
  const auto refilled = redis::wait(site.feed().refill(site.page(3, "m.p.1"), kept));
  REQUIRE(refilled);
  CHECK(refilled->page.sequence == taken.page.sequence);
  CHECK(refilled->page.items.size() == 3);
  CHECK(site.take(3, "m.p.1").page.items == refilled->page.items);
}

TEST_CASE("more unacknowledged impressions than allowed are refused, and nothing is handed out", "[feed]") {
  Site site;
  site.deferred.lost = true;
  const auto first = site.swap({}, range(0, 300), false, 100);
  const auto refused = redis::wait(site.feed().take(site.page(1)));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kUnavailable);
  CHECK(refused.error().reason == "too_many_pending");
  CHECK(site.integer("LLEN", site.keys.feed_cache("r")) == 200);
  site.deferred.lost = false;
  site.record(first, range(0, 100));
  CHECK(site.take(1).page.items == range(100, 101));
}

TEST_CASE("impressions lost on the way are reported half a minute later, each hand-out whole", "[feed]") {
  Site site;
  const auto page = site.swap({}, range(0, 3), false, 3);
  CHECK(site.open().unacknowledged.empty());
  CHECK(site.open().handed_out == range(0, 3));
  site.integer("ZADD", site.keys.feed_pending("r"), "XX", "CH", -static_cast<double>(unix_ms() - 40000),
               std::to_string(page.generation) + ".1 i0 i1 i2");
  const auto lost = site.open().unacknowledged;
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].handout.items == range(0, 3));
  CHECK(std::abs((wall_now() - lost[0].at).count() - 40) <= 2);
  site.feed().record(kReader, {lost[0].handout}, lost[0].handout.items, lost[0].at);
  CHECK(site.open().unacknowledged.empty());
  CHECK(site.open().handed_out == range(0, 3));  // for a minute
}

TEST_CASE("what was acknowledged more than a minute ago is left to the filter, also before anybody cleans up",
          "[feed]") {
  Site site;
  const auto page = site.swap({}, range(0, 3), false, 3);
  site.record(page, range(0, 3));
  CHECK(site.open().handed_out == range(0, 3));
  site.integer("ZADD", site.keys.feed_pending("r"), "XX", "CH", static_cast<double>(unix_ms() - 61000),
               std::to_string(page.generation) + ".1 i0 i1 i2");
  CHECK(site.open().handed_out.empty());
}

TEST_CASE("what was handed out and not shown is forgotten, and the rest is recorded once", "[feed]") {
  Site site;
  const auto page = site.swap({}, range(0, 3), false, 3);
  site.record(page, range(1, 3));
  const auto opened = site.open();
  CHECK(opened.handed_out == range(1, 3));
  CHECK_FALSE(opened.seen->contains(range(0, 1)[0]));
  CHECK(opened.seen->contains(range(1, 2)[0]));
  site.record(page, range(1, 3));
  CHECK(site.open().handed_out == range(1, 3));
  const auto other = site.swap(opened, range(0, 1));
  site.record(other, {});
  CHECK(site.open().handed_out == range(1, 3));
}

TEST_CASE("interests are the newest items engaged with, each once, and run out after interactions.ttl",
          "[feed]") {
  Site site;
  for (const int number : {1, 2, 3, 1})
    site.feed().engaged(kReader, ItemId::trusted("i" + std::to_string(number)));
  CHECK(site.open().interests.size() == 3);
  const auto key = site.keys.interactions("r");
  CHECK(site.integer("ZCARD", key) == 3);
  const auto ttl = site.integer("TTL", key);
  CHECK(ttl > site.settings.interactions.ttl.count() - 60);
  CHECK(ttl <= site.settings.interactions.ttl.count());
}

TEST_CASE("an interest that pushes out a reply leaves its item excluded", "[feed]") {
  Site site;
  site.settings.interactions.max_kept = 1;
  site.integer("ZADD", site.keys.interactions("r"), 10, "r:replied", 20, "v:read");
  site.feed().engaged(kReader, ItemId::trusted("now"));
  CHECK(site.integer("ZCARD", site.keys.interactions("r")) == 1);
  const auto kept = site.redis.call(redis::Pipeline().add("GET", site.keys.earlier("r")));
  REQUIRE(kept);
  CHECK(fingerprints_of(kept->front().string().value_or("")) ==
        std::unordered_set<std::uint64_t>{fingerprint("replied")});
  CHECK(site.integer("TTL", site.keys.earlier("r")) == site.integer("TTL", site.keys.interactions("r")));
}

TEST_CASE("an interest weighs what the strongest thing done with its item weighs, at its newest place",
          "[feed]") {
  Site site;
  const auto key = site.keys.interactions("r");
  // An old format's member without a kind, and a kind that is none, say nothing.
  site.integer("ZADD", key, 10, "p:old", 20, "v:new", 30, "l:old", 40, "v:old", 50, "plain", 60, "z:odd");
  const auto opened = site.open();
  REQUIRE(opened.interests.size() == 2);
  CHECK(opened.interests[0].item.view() == "old");
  CHECK(opened.interests[0].weight == site.settings.interactions.post_weight);
  CHECK(opened.interests[1].item.view() == "new");
  CHECK(opened.interests[1].weight == site.settings.interactions.view_weight);
}
