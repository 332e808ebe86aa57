// The feed's scripts on a real Redis: what they store, for how long, and which concurrent request
// wins.
#include "core/feed/feed_store.h"

#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "core/base/fingerprint.h"
#include "core/readers/read_buffer.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/fields.h"
#include "core/redis/scripts.h"
#include "tests/feed/exact_filter.h"
#include "tests/support/error_of.h"
#include "tests/support/redis_server.h"
#include "tests/support/write_queues.h"

using namespace freshet;
using namespace freshet::test;

namespace {

const ReaderId kReader = ReaderId::trusted("r");

struct Site {
  Site() : keys("p:") {
    settings.feed.max_pending = 100;
    server.flush_all();
  }
  static test::RedisServer& running() {
    static test::RedisServer one;
    return one;
  }
  test::RedisServer& server = running();
  Settings settings;
  redis::Keys keys;
  redis::BlockingRedis redis{server.endpoint(), milliseconds(5000), redis::kAllScripts};
  test::ImmediateWriteQueue deferred{redis};
  test::ExactFilter filter;
  std::optional<feed::RedisFeedStore> made;

  feed::RedisFeedStore& feed() {
    if (!made) made.emplace(redis, filter, settings, keys);
    return *made;
  }
  void add_interest(const std::string& item, milliseconds dwell = milliseconds(20000)) {
    readers::ReadBuffer reads(deferred, settings, keys);
    reads.add_interest(kReader, ItemId::trusted(item), dwell);
    reads.flush();
  }
  feed::FeedRequest page(std::size_t limit, std::string request = {}, std::string query = {}) const {
    return {kReader, std::move(request), std::move(query), limit};
  }
  feed::FeedState load_state(const std::string& request = {}) {
    auto state = redis::run_sync(feed().load_state(page(5, request), false));
    REQUIRE(state);
    return *state;
  }
  feed::Page swap(feed::FeedState state, std::vector<ItemId> candidates, bool exhausted = false,
                  std::size_t limit = 5, std::string request = {}, std::string query = {}) {
    const feed::BufferSwap buffer_swap{state.generation,      state.delivery_seq, state.external_impressions,
                                       std::move(candidates), exhausted,          {}};
    auto swapped =
        redis::run_sync(feed().swap_buffer(page(limit, std::move(request), std::move(query)), buffer_swap));
    REQUIRE(swapped);
    return swapped->page;
  }
  feed::PageResult next_page(std::size_t limit, std::string request = {}, std::string query = {}) {
    auto result = redis::run_sync(feed().next_page(page(limit, std::move(request), std::move(query))));
    REQUIRE(result);
    return *result;
  }
  void record(const feed::Page& from, const std::vector<ItemId>& shown) {
    feed::Impressions impressions;
    impressions.deliveries.push_back({from.delivery_seq, from.items});
    impressions.items = shown;
    impressions.at = wall_now();
    record(impressions);
  }
  void record(const feed::Impressions& impressions) {
    REQUIRE(redis::run_sync(feed().record(kReader, impressions)));
  }
  // Makes the pages of the reader's feed older by this much.
  void age(std::int64_t by_ms) {
    for (const char* const slot : {"0", "1", "2", "3"}) {
      redis::Pipeline read, write;
      read.add("HGET", keys.feed_state("r"), slot);
      const auto page = redis.call(read);
      REQUIRE(page);
      auto words = redis::split_words(page->front().string().value_or(""), kIdSeparator);
      if (words.size() < 3) continue;
      const std::string time = std::to_string(redis::to_int(words[2]) - by_ms);
      words[2] = time;
      std::string text;
      for (const auto each : words) text.append(text.empty() ? 0 : 1, kIdSeparator).append(each);
      write.add("HSET", keys.feed_state("r"), slot, text);
      REQUIRE(redis.call(write));
    }
  }
  std::vector<ItemId> buffered() {
    auto state = redis::run_sync(feed().load_state(page(5), true));
    REQUIRE(state);
    return state->buffered_items;
  }
  std::int64_t ttl() { return integer("TTL", keys.feed_state("r")); }
  std::int64_t integer(auto... words) {
    redis::Pipeline command;
    command.add(words...);
    auto replies = redis.call(command);
    REQUIRE(replies);
    auto value = replies->front().integer();
    REQUIRE(value);
    return *value;
  }
};

std::vector<ItemId> range(int from, int to) {
  std::vector<ItemId> out;
  for (int i = from; i < to; ++i) out.push_back(ItemId::trusted("i" + std::to_string(i)));
  return out;
}

}  // namespace

TEST_CASE("a swap delivers the first page and keeps the rest for half an hour", "[feed]") {
  Site site;
  const auto page = site.swap({}, range(0, 12));
  CHECK(page.items == range(0, 5));
  CHECK(page.generation > 1700000000000);
  CHECK(page.sequence == 1);
  CHECK(page.has_more_buffered);
  CHECK_FALSE(page.exhausted);
  const auto ttl = site.integer("TTL", site.keys.feed_cache("r"));
  CHECK((ttl > 1790 && ttl <= 1800));
  const auto next = site.next_page(5);
  CHECK(next.page.items == range(5, 10));
  CHECK(next.page.sequence == 2);
  CHECK(next.page.generation == page.generation);
  CHECK(site.next_page(5).page.items == range(10, 12));
  CHECK(site.next_page(5).status == feed::PageResult::Status::kEmpty);
}

TEST_CASE("a buffer is delivered in order in pages of any size until it is empty", "[feed]") {
  Site site;
  std::mt19937 random(7);
  const auto between = [&](int least, int most) {
    return std::uniform_int_distribution(least, most)(random);
  };
  for (int run = 0; run < 30; ++run) {
    site.server.flush_all();
    site.settings.feed.max_pending = 10000;
    site.made.reset();
    const int all = between(0, 300);
    int next = std::min(all, between(1, 40));
    CHECK(site.swap({}, range(0, all), true, static_cast<std::size_t>(next == 0 ? 1 : next)).items ==
          range(0, next));
    while (next < all) {
      INFO("run " << run << ", " << next << " of " << all);
      CHECK(site.buffered() == range(next, all));
      const auto ttl = site.integer("TTL", site.keys.feed_cache("r"));
      CHECK((ttl > 1790 && ttl <= 1800));
      const int end = std::min(all, next + between(1, 60));
      const auto result = site.next_page(static_cast<std::size_t>(end == all ? 100 : end - next)).page;
      REQUIRE(result.items == range(next, std::min(all, end == all ? next + 100 : end)));
      next += static_cast<int>(result.items.size());
      CHECK(result.has_more_buffered == (next < all));
      CHECK(result.exhausted == (next == all));
    }
    CHECK(site.integer("EXISTS", site.keys.feed_cache("r")) == 0);
    CHECK(site.next_page(1).status == feed::PageResult::Status::kEmpty);
  }
}

TEST_CASE("a buffer has one line per page and at most a thousand lines", "[feed]") {
  Site site;
  site.swap({}, range(0, 500), false, 20);
  CHECK(site.integer("LLEN", site.keys.feed_cache("r")) == 24);
  site.settings.feed.max_pending = 10000;
  site.made.reset();
  CHECK(site.swap(site.load_state(), range(500, 2700), false, 1, {}, "q").items == range(500, 501));
  CHECK(site.integer("LLEN", site.keys.feed_cache("r")) < static_cast<std::int64_t>(feed::kMaxBufferLines));
  CHECK(site.buffered() == range(501, 2700));
}

TEST_CASE("hot items are read once a second, also by a replay", "[feed]") {
  Site site;
  UnixSeconds now = wall_now();
  feed::RedisFeedStore store(site.redis, site.filter, site.settings, site.keys, [&] { return now; });
  const auto hot = [&] {
    auto state = redis::run_sync(store.load_state(site.page(5), false));
    REQUIRE(state);
    return state->hot_items;
  };
  const auto rank = site.keys.partition(0).rank(hot::kTrendingModel);
  site.integer("ZADD", rank, 1, "i0");
  site.swap({}, range(50, 60), false, 3, "r.e.1");
  const auto replayed = redis::run_sync(store.load_state(site.page(3, "r.e.1"), false));
  REQUIRE(replayed);
  CHECK(replayed->is_replay);
  site.integer("ZADD", rank, 0, "i1");
  CHECK(hot() == range(0, 1));
  now += seconds{1};
  CHECK(hot() == range(0, 2));
}

TEST_CASE("the last page is exhausted if recall had no more items", "[feed]") {
  Site site;
  CHECK_FALSE(site.swap({}, range(0, 7), true).exhausted);
  CHECK(site.next_page(5).page.exhausted);
  const auto state = site.load_state();
  CHECK(site.swap(state, {}, true).exhausted);
}

TEST_CASE("the second of two concurrent refreshes of one generation takes its page from the first's buffer",
          "[feed]") {
  Site site;
  CHECK(site.swap({}, range(0, 20)).items == range(0, 5));
  const auto second = site.swap({}, range(0, 20));
  CHECK(second.items == range(5, 10));
  CHECK(second.sequence == 2);
  CHECK(site.buffered() == range(10, 20));
}

TEST_CASE("a refresh of another query replaces the buffer, and load_more then needs that query", "[feed]") {
  Site site;
  site.swap({}, range(0, 10));
  CHECK(site.swap(site.load_state(), range(20, 30), false, 5, {}, "q").items == range(20, 25));
  CHECK(site.next_page(5).status == feed::PageResult::Status::kEmpty);
  CHECK(site.next_page(5, {}, "q").page.items == range(25, 30));
}

TEST_CASE("items delivered by another request between load and swap are not delivered again", "[feed]") {
  Site site;
  site.swap({}, range(0, 10));
  const auto state = site.load_state();
  const auto second = site.next_page(5);
  CHECK(second.page.items == range(5, 10));
  site.record(second.page, range(5, 10));  // acknowledged, so only the retention of acknowledged pages has it
  CHECK(site.swap(state, range(5, 20)).items == range(10, 15));
  const auto last = site.next_page(5).page;
  CHECK(last.items == range(15, 20));
  CHECK_FALSE(last.has_more_buffered);
}

TEST_CASE("a refresh overtaken by more pages than are remembered uses the buffer, or must reload", "[feed]") {
  Site site;
  site.swap({}, range(0, 7), false, 1);
  const auto state = site.load_state();
  for (int i = 0; i < 5; ++i) site.record(site.next_page(1).page, range(i + 1, i + 2));
  CHECK(site.swap(state, range(0, 20), false, 1).items == range(6, 7));
  const feed::BufferSwap buffer_swap{state.generation, state.delivery_seq, 0, range(0, 20), false, {}};
  const auto swapped = redis::run_sync(site.feed().swap_buffer(site.page(1), buffer_swap));
  REQUIRE(swapped);
  CHECK(swapped->must_reload);
  CHECK(site.swap(site.load_state(), range(7, 20), false, 1).items == range(7, 8));
}

TEST_CASE("a card that Redis does not return is not taken for that of an unknown item", "[feed]") {
  Site site;
  redis::Pipeline wrong_type;
  wrong_type.add("SET", site.keys.item("i1"), "text");
  REQUIRE(redis::run_sync(redis::run_all(site.redis, wrong_type)));
  const auto swapped =
      redis::run_sync(site.feed().swap_buffer(site.page(3), {0, 0, 0, range(0, 3), false, range(0, 3)}));
  REQUIRE(swapped);
  CHECK(swapped->page.items.size() == 3);
  CHECK(swapped->cards.size() == 1);  // of i0
}

TEST_CASE("a feed's hash lives eight days while a page is unacknowledged, else as long as the buffer",
          "[feed]") {
  Site site;
  const auto first = site.swap({}, range(0, 20), false, 1);
  CHECK((site.ttl() > 8 * 86400 - 10 && site.ttl() <= 8 * 86400));
  site.record(first, range(0, 1));
  CHECK((site.ttl() > 1790 && site.ttl() <= 1800));
  std::vector<feed::Page> pages;
  for (int i = 0; i < 6; ++i) pages.push_back(site.next_page(1).page);
  for (const feed::Page& each : pages) {
    CHECK(site.ttl() > 8 * 86400 - 10);
    site.record(each, each.items);
  }
  CHECK(site.ttl() <= 1800);
  site.next_page(20);
  const auto empty = site.swap(site.load_state(), {});
  CHECK(empty.items.empty());
  CHECK(site.ttl() > 8 * 86400 - 10);  // because of the page before
}

TEST_CASE("a buffer lives half an hour after a refresh, or after a page took part of a line", "[feed]") {
  Site site;
  const std::string buffer = site.keys.feed_cache("r");
  const auto is_renewed = [&] {
    const std::int64_t ttl = site.integer("TTL", buffer);
    return ttl > 1790 && ttl <= 1800;
  };
  site.swap({}, range(0, 20), false, 5);  // the first page takes a whole line
  CHECK(is_renewed());
  site.integer("EXPIRE", buffer, 1000);
  site.next_page(3);
  CHECK(is_renewed());
}

TEST_CASE("pages older than the last four still wait for their acknowledgement", "[feed]") {
  Site site;
  std::vector<feed::Page> pages{site.swap({}, range(0, 20), false, 1)};
  for (int i = 0; i < 6; ++i) pages.push_back(site.next_page(1).page);
  CHECK(site.load_state().delivered_items.size() == 7);
  site.record(pages[1], {});
  auto left = site.load_state().delivered_items;
  CHECK(left.size() == 6);
  CHECK(std::find(left.begin(), left.end(), pages[1].items[0]) == left.end());
  for (const feed::Page& each : pages) site.record(each, each.items);
  CHECK(site.integer("HSTRLEN", site.keys.feed_state("r"), "late") == 0);
  CHECK(site.load_state().unacknowledged.empty());
}

TEST_CASE("impressions recorded elsewhere are reported with each later page until a refresh", "[feed]") {
  Site site;
  feed::Impressions fill;
  fill.items = range(6, 7);
  fill.at = wall_now();
  site.record(fill);
  CHECK(site.integer("EXISTS", site.keys.feed_state("r")) == 0);
  site.swap({}, range(0, 20));
  auto result = site.next_page(1);
  CHECK_FALSE(result.has_external_impressions);
  CHECK(result.seen_view == nullptr);
  site.record(fill);
  for (int i = 0; i < 2; ++i) {
    result = site.next_page(1);
    CHECK(result.has_external_impressions);
    REQUIRE(result.seen_view);
    CHECK(result.seen_view->contains(result.page.items) == std::vector<bool>{i == 0});
  }
  site.swap(site.load_state(), range(10, 20));
  CHECK_FALSE(site.next_page(1).has_external_impressions);
}

TEST_CASE("an acknowledgement from before an erasure does not acknowledge a page delivered after it",
          "[feed]") {
  Site site;
  const auto before = site.swap({}, range(0, 5), false, 1);
  site.integer("DEL", site.keys.feed_state("r"), site.keys.feed_cache("r"));
  std::this_thread::sleep_for(milliseconds(2));
  site.swap(site.load_state(), range(5, 10), false, 1);
  site.record(before, range(0, 1));
  CHECK(site.ttl() > 1800);
}

TEST_CASE("foreign data in a feed's keys is an error or treated as no buffer", "[feed]") {
  Site site;
  const auto key = site.keys.feed_state("r");
  site.integer("HSET", key, "head", "rubbish", "0", "0=", "1", "x", "2",
               "0=a\x1f"
               "1\x1f"
               "b",
               "late", "\n\n0\nx");
  CHECK(site.load_state().generation == 0);
  CHECK(site.next_page(1).status == feed::PageResult::Status::kEmpty);
  CHECK(site.swap(site.load_state(), range(0, 5), false, 1).items == range(0, 1));
  site.integer("DEL", key);
  site.integer("SADD", key, "x");
  const auto state = redis::run_sync(site.feed().load_state(site.page(5), false));
  REQUIRE_FALSE(state);
  CHECK(error_of(state).code == ErrorCode::kInternal);
}

TEST_CASE("the same request within a minute returns the same page and leaves the buffer unchanged",
          "[feed]") {
  Site site;
  const auto first = site.swap({}, range(0, 12), false, 3, "r.e.1");
  const auto again = site.swap({}, range(50, 60), false, 3, "r.e.1");
  CHECK(again.items == first.items);
  CHECK(again.replay);
  CHECK(site.load_state("r.e.1").is_replay);
  const auto second = site.next_page(3, "m.p.1");
  CHECK(site.next_page(3, "m.p.1").page.items == second.page.items);
  CHECK(site.next_page(3, "m.p.1").page.replay);
  CHECK(site.next_page(3).page.items == range(6, 9));
  site.age(58000);
  CHECK(site.next_page(3, "m.p.1").page.items == second.page.items);
  site.age(3000);
  CHECK(site.next_page(3, "m.p.1").page.items == range(9, 12));
}

TEST_CASE("a page comes with the newest interests, whether from the buffer or replayed", "[feed][reason]") {
  Site site;
  site.integer("ZADD", site.keys.interactions("r"), 10, "p:old", 20, "l:new");
  const auto newest = [](const std::vector<feed::Interest>& interests) {
    REQUIRE(interests.size() == 2);
    CHECK(interests[0].item.view() == "new");
    CHECK(interests[0].interaction == readers::Interaction::kLike);
    CHECK(interests[1].item.view() == "old");
  };
  site.swap({}, range(0, 12), false, 3, "r.e.1");
  newest(site.load_state("r.e.1").interests);
  newest(site.next_page(3, "m.p.1").interests);
  newest(site.next_page(3, "m.p.1").interests);
}

TEST_CASE("items shown in a replay are not returned to the feed, and returned items are not replayed",
          "[feed]") {
  Site site;
  const auto page = site.swap({}, range(0, 6), false, 3, "r.e.1");
  const auto show = [&](int from, int to) {
    const auto shown = redis::run_sync(site.feed().replay_page(site.page(3, "r.e.1"), range(from, to)));
    REQUIRE(shown);
    return *shown;
  };
  CHECK(show(0, 2) == range(0, 2));
  site.record(page, range(0, 1));
  CHECK(site.load_state().delivered_items == range(0, 2));
  CHECK(show(0, 3) == range(0, 2));
  site.age(6000);
  const auto lost = site.load_state().unacknowledged;
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].delivery.items == range(0, 2));
  site.record(page, range(0, 2));
  CHECK(site.load_state().unacknowledged.empty());
  CHECK(show(0, 3) == range(0, 2));
}

TEST_CASE("a refilled page is replayed as it was served", "[feed]") {
  Site site;
  site.swap({}, range(0, 20), false, 3);
  auto result = site.next_page(3, "m.p.1");
  feed::Page partial = result.page;
  partial.items = {partial.items[0]};
  const auto refilled = redis::run_sync(site.feed().refill_page(site.page(3, "m.p.1"), partial));
  REQUIRE(refilled);
  CHECK(refilled->page.sequence == result.page.sequence);
  CHECK(refilled->page.items.size() == 3);
  CHECK(site.next_page(3, "m.p.1").page.items == refilled->page.items);
}

TEST_CASE("requests beyond the limit of unacknowledged impressions are refused and deliver nothing",
          "[feed]") {
  Site site;
  const auto first = site.swap({}, range(0, 300), false, 100);
  const auto refused = redis::run_sync(site.feed().next_page(site.page(1)));
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).code == ErrorCode::kUnavailable);
  CHECK(error_of(refused).reason == "too_many_pending");
  CHECK(site.buffered() == range(100, 300));
  site.record(first, range(0, 100));
  CHECK(site.next_page(1).page.items == range(100, 101));
}

TEST_CASE("lost impressions are reported after a timeout, one entry per delivery", "[feed]") {
  Site site;
  const auto page = site.swap({}, range(0, 3), false, 3);
  CHECK(site.load_state().unacknowledged.empty());
  CHECK(site.load_state().delivered_items == range(0, 3));
  site.age(40000);
  const auto lost = site.load_state().unacknowledged;
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].delivery.items == range(0, 3));
  CHECK(std::abs((wall_now() - lost[0].delivered_at).count() - 40) <= 2);
  CHECK_FALSE(lost[0].is_recorded);
  CHECK(site.next_page(1).unacknowledged.empty());  // no buffer is left
  feed::Impressions again;
  again.deliveries.push_back(lost[0].delivery);
  again.items = lost[0].delivery.items;
  again.at = lost[0].delivered_at;
  again.is_resend = true;
  site.record(again);
  CHECK(site.load_state().unacknowledged.empty());
  CHECK(site.load_state().delivered_items == range(0, 3));  // for a minute
}

TEST_CASE("pages acknowledged more than a minute ago are left to the filter, even before they are cleaned up",
          "[feed]") {
  Site site;
  const auto page = site.swap({}, range(0, 3), false, 3);
  site.record(page, range(0, 3));
  CHECK(site.load_state().delivered_items == range(0, 3));
  site.age(61000);
  CHECK(site.load_state().delivered_items.empty());
}

TEST_CASE("delivered items that were not shown are released, and the rest is recorded once", "[feed]") {
  Site site;
  const auto page = site.swap({}, range(0, 3), false, 3);
  site.record(page, range(1, 3));
  const auto state = site.load_state();
  CHECK(state.delivered_items == range(1, 3));
  CHECK(state.seen_view->contains(range(0, 3)) == std::vector<bool>{false, true, true});
  site.record(page, range(1, 3));
  CHECK(site.load_state().delivered_items == range(1, 3));
  const auto other = site.swap(state, range(0, 1));
  site.record(other, {});
  CHECK(site.load_state().delivered_items == range(1, 3));
}

TEST_CASE(
    "interests are the newest items interacted with, without duplicates, and expire after interactions.ttl",
    "[feed]") {
  Site site;
  for (const int number : {1, 2, 3, 1}) site.add_interest("i" + std::to_string(number));
  site.add_interest("skimmed", site.settings.feed.interest_min_dwell - milliseconds(1));
  CHECK(site.load_state().interests.size() == 3);
  const auto key = site.keys.interactions("r");
  CHECK(site.integer("ZCARD", key) == 3);
  const auto ttl = site.integer("TTL", key);
  CHECK(ttl > site.settings.interactions.ttl.count() - 60);
  CHECK(ttl <= site.settings.interactions.ttl.count());
}

TEST_CASE("an anonymous reader's feed and interests expire in a week at the latest", "[feed]") {
  Site site;
  site.settings.feed.buffer_ttl = seconds{10 * 86400};
  const ReaderId anonymous = anonymous_reader(VisitorId::trusted("cX"));
  readers::ReadBuffer reads(site.deferred, site.settings, site.keys);
  for (const ReaderId& each : {anonymous, kReader})
    reads.add_interest(each, ItemId::trusted("i"), milliseconds(20000));
  reads.add_view({anonymous, ItemId::trusted("i")});
  reads.flush();
  feed::FeedRequest request = site.page(2);
  request.reader = anonymous;
  const auto swapped = redis::run_sync(site.feed().swap_buffer(request, {0, 0, 0, range(0, 20), false, {}}));
  REQUIRE(swapped);
  const auto ttls = [&] {
    for (const std::string& key :
         {site.keys.feed_state(anonymous.view()), site.keys.feed_cache(anonymous.view()),
          site.keys.interactions(anonymous.view())}) {
      INFO(key);
      const std::int64_t ttl = site.integer("TTL", key);
      CHECK((ttl > 7 * 86400 - 10 && ttl <= 7 * 86400));
    }
  };
  ttls();
  feed::Impressions shown{
      {{swapped->page.delivery_seq, swapped->page.items}}, swapped->page.items, wall_now()};
  REQUIRE(redis::run_sync(site.feed().record(anonymous, shown)));
  ttls();
  CHECK(site.integer("TTL", site.keys.interactions("r")) > 170 * 86400);
}

TEST_CASE("an interest that pushes out a reply keeps the reply's item excluded", "[feed]") {
  Site site;
  site.settings.interactions.max_kept = 1;
  site.integer("ZADD", site.keys.interactions("r"), 10, "r:replied", 20, "v:read");
  site.integer("EXPIRE", site.keys.interactions("r"), 1000);
  site.add_interest("now");
  CHECK(site.integer("ZCARD", site.keys.interactions("r")) == 1);
  const auto archived = site.redis.call(redis::Pipeline().add("GET", site.keys.archived_interactions("r")));
  REQUIRE(archived);
  CHECK(parse_fingerprints(archived->front().string().value_or("")) ==
        std::unordered_set<std::uint64_t>{fingerprint("replied")});
  CHECK(site.integer("TTL", site.keys.archived_interactions("r")) ==
        site.integer("TTL", site.keys.interactions("r")));
}

TEST_CASE("an interest has the weight of the strongest interaction, at the position of the newest",
          "[feed]") {
  Site site;
  const auto key = site.keys.interactions("r");
  // Members without a kind (an old format) or with an unknown kind are ignored.
  site.integer("ZADD", key, 10, "p:old", 20, "v:new", 30, "l:old", 40, "v:old", 50, "plain", 60, "z:odd");
  const auto state = site.load_state();
  REQUIRE(state.interests.size() == 2);
  CHECK(state.interests[0].item.view() == "old");
  CHECK(state.interests[0].weight == site.settings.interactions.post_weight);
  CHECK(state.interests[0].interaction == readers::Interaction::kPost);
  CHECK(state.interests[1].item.view() == "new");
  CHECK(state.interests[1].weight == site.settings.interactions.view_weight);
}
