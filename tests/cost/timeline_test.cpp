// Redis cost of timelines.
#include "core/items/item_store.h"
#include "core/timeline/follow_store.h"
#include "core/timeline/timeline_store.h"
#include "tests/cost/cost.h"
#include "tests/support/write_queues.h"

using namespace freshet;
using test::Cost;
using timeline::Direction;

namespace {

// A worker with a warm item cache, and readers with full, recently read timelines.
struct Site {
  static constexpr int kItems = 600;
  Site() {
    cards.heartbeat(items::CardCache::Clock::time_point::max());
    settings.fanout.max_push_followers = 0;  // authors with a follower are pulled
    std::vector<items::Item> all(kItems);
    for (int i = 0; i < kItems; ++i) {
      items::Item& each = all[static_cast<std::size_t>(i)];
      each.id = item(i);
      each.title = "title";
      each.published_at = UnixSeconds{seconds{1700000000}};
    }
    REQUIRE(redis::run_sync(items.put_many(all)));
  }
  void create_timelines() {
    timelines.emplace(costs.redis, costs.redis, write_queue, cards, settings, keys);
    follows.emplace(costs.redis, settings, keys, [] { return "job"; });
    for (const char* channel : {"discover", "follow"}) {
      std::vector<ItemId> ids;
      for (int i = 0; i < 500; ++i) ids.push_back(item(i));
      push(channel, ids);
      mark_up_to_date(channel);
      page(channel, Direction::kFirst);
    }
  }
  // Sets the reader's marker so that the next page finds no entries that joined.
  void mark_up_to_date(const std::string& channel) {
    redis::Pipeline mark;
    mark.add("ZADD", keys.timeline(channel, "r0"), -1, redis::kHighestMark);
    REQUIRE(costs.direct.call_all(mark));
  }
  static ItemId item(int number) { return ItemId::trusted("item-" + std::to_string(number)); }
  void push(const std::string& channel, std::vector<ItemId> items_to_push, int count = 1) {
    timeline::PushRequest request{channel, std::move(items_to_push), {}};
    for (int i = 0; i < count; ++i) request.readers.push_back(ReaderId::trusted("r" + std::to_string(i)));
    REQUIRE(redis::run_sync(timelines->push(request)));
  }
  timeline::TimelinePage page(const std::string& channel, Direction direction, std::int64_t score = 0) {
    auto out = redis::run_sync(timelines->read({channel, ReaderId::trusted("r0"), direction, score, 20}));
    REQUIRE(out);
    REQUIRE(out->items.size() == 20);
    return std::move(*out);
  }

  test::CostMeter costs;
  Settings settings;
  redis::Keys keys{""};
  test::ImmediateWriteQueue write_queue{costs.direct};  // asynchronous writes are measured elsewhere
  items::RedisItemStore items{costs.redis, settings, keys};
  items::CardCache cards{items, settings.items_cache_bytes};
  std::optional<timeline::RedisTimelineStore> timelines;
  std::optional<timeline::RedisFollowStore> follows;
};

void check(const Cost& cost, std::int64_t commands, std::int64_t round_trips) {
  INFO(cost.text());
  CHECK(cost.commands() == commands);
  CHECK(cost.round_trips == round_trips);
}

}  // namespace

TEST_CASE(
    "a page of a timeline reads a range, the markers, a count, and the reader's interests and dismissals",
    "[cost]") {
  Site site;
  site.create_timelines();
  const auto first = site.page("discover", Direction::kFirst);
  check(site.costs.measure([&] { site.page("discover", Direction::kFirst); }), 4, 1);
  // Warms the item cache for this page.
  const auto below = site.page("discover", Direction::kOlder, first.oldest_score);
  check(site.costs.measure([&] { site.page("discover", Direction::kOlder, first.oldest_score); }), 5, 1);
  check(site.costs.measure([&] { site.page("discover", Direction::kNewer, below.oldest_score); }), 5, 1);
  site.cards.invalidate_all();
  check(site.costs.measure([&] { site.page("discover", Direction::kFirst); }), 4 + 21, 2);
  const Cost idle = site.costs.measure([&] { site.page("discover", Direction::kFirst); });
  CHECK(idle.aof_bytes == 0);
}

TEST_CASE("reading a timeline is recorded once an hour, in four asynchronous commands", "[cost]") {
  Site site;
  site.create_timelines();
  redis::Pipeline old;
  old.add("ZADD", site.keys.timeline("discover", "r0"), -1, redis::kActivityMark);
  REQUIRE(site.costs.direct.call_all(old));
  check(site.costs.measure([&] { site.page("discover", Direction::kFirst); }), 4 + 4, 1);
  check(site.costs.measure([&] { site.page("discover", Direction::kFirst); }), 4, 1);
}

TEST_CASE("activity within a second costs two commands per reader, and two for all readers", "[cost]") {
  Site site;
  site.create_timelines();
  constexpr int kReaders = 50;
  std::vector<ItemId> ids;
  for (int i = 0; i < 30; ++i) ids.push_back(Site::item(i));
  site.push("discover", ids, kReaders);
  std::function<void()> flush;
  site.timelines.emplace(site.costs.redis, site.costs.redis, site.write_queue, site.cards, site.settings,
                         site.keys, [&](milliseconds, std::function<void()> f) { flush = std::move(f); });
  REQUIRE(redis::run_sync(site.cards.get(ids)));
  const Cost pages = site.costs.measure([&] {
    for (int i = 1; i < kReaders; ++i) {
      const auto reader = ReaderId::trusted("r" + std::to_string(i));
      REQUIRE(redis::run_sync(site.timelines->read({"discover", reader, Direction::kFirst, 0, 20})));
    }
  });
  INFO(pages.text());
  CHECK(pages.commands() == (kReaders - 1) * (4 + 2));
  CHECK(site.timelines->pending_activity() == kReaders - 1);
  REQUIRE(flush);
  const Cost activity = site.costs.measure(flush);
  INFO(activity.text());
  CHECK(activity.commands() == 2);
  redis::Pipeline count;
  count.add("ZCARD", site.keys.active_readers("discover"));
  CHECK(site.costs.direct.call(count)->front().integer() == kReaders);
}

TEST_CASE("a page of the follow channel also reads the markers of pulled authors", "[cost]") {
  Site site;
  site.create_timelines();
  const ReaderId reader = ReaderId::trusted("r0");
  const AuthorId author = AuthorId::trusted("ann");
  check(site.costs.measure([&] { site.page("follow", Direction::kFirst); }), 3, 1);
  REQUIRE(redis::run_sync(site.follows->follow(reader, author)));
  REQUIRE(redis::run_sync(site.follows->publish(author, {Site::item(550)})));
  site.timelines.emplace(site.costs.redis, site.costs.redis, site.write_queue, site.cards, site.settings,
                         site.keys, redis::RunAfter(), milliseconds(3'600'000));
  const std::vector<ItemId> published(1, Site::item(550));
  REQUIRE(redis::run_sync(site.cards.get(published)));
  // The pulled authors; markers, page and dismissals; the outbox; the marker, TIME, a push that
  // trims, the marker, and markers and page again; recording that it was read.
  check(site.costs.measure([&] { site.page("follow", Direction::kFirst); }),
        1 + 4 + 1 + (1 + 1 + 4 + 1 + 3) + 4, 4);
  site.mark_up_to_date("follow");
  check(site.costs.measure([&] { site.page("follow", Direction::kFirst); }), 4, 1);
}

TEST_CASE("a push of one item is three commands per reader, of which none returns a score", "[cost]") {
  Site site;
  site.create_timelines();
  constexpr int kReaders = 50;
  for (int i = 0; i < 16; ++i) site.push("discover", {Site::item(500 + i)}, kReaders);
  std::int64_t commands = 0;
  for (int i = 0; i < 8; ++i) {
    const Cost cost = site.costs.measure([&] { site.push("discover", {Site::item(520 + i)}, kReaders); });
    CHECK(cost.round_trips == 1);
    commands += cost.commands();
  }
  // Two counts and a write per reader. The timeline of r0 is full, so every eighth time it is
  // trimmed: a read and two writes. TIME once per push.
  CHECK(commands == 8 + kReaders * 8 * 3 + 3);
}
