// View history, interactions and dismissals on a real Redis.
#include <iostream>
#include <random>

#include "core/base/fingerprint.h"
#include "core/base/json.h"
#include "core/readers/reader_merge.h"
#include "tests/readers/fixture.h"
#include "tests/support/error_of.h"
#include "tests/support/repeat_count.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::test;
using readers::Interaction;
using readers::ViewKind;

namespace {

using Names = std::vector<std::string>;

// Runs a hook before a round trip; or fails once, losing everything after a barrier as well as the
// reply.
class FaultyRedis final : public redis::Redis {
 public:
  explicit FaultyRedis(redis::Redis& inner) : inner_(inner) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    if (trips_before_hook-- == 0 && hook) hook();
    const auto barriers = pipeline.barriers();
    if (!lost_after_barrier || *lost_after_barrier >= barriers.size()) {
      auto replies = co_await inner_.run(pipeline);
      co_return replies;
    }
    redis::Pipeline first;
    for (std::size_t i = 0; i < barriers[*lost_after_barrier]; ++i) first.raw(pipeline.at(i));
    lost_after_barrier.reset();
    FRESHET_CO_TRY(replies, co_await inner_.run(first));
    co_return fail(ErrorCode::kUnknownOutcome, "redis_lost");
  }
  bool ready() const override { return true; }
  std::function<void()> hook;
  int trips_before_hook = 0;  // until `hook` runs
  std::optional<std::size_t> lost_after_barrier;

 private:
  redis::Redis& inner_;
};

}  // namespace

TEST_CASE(
    "repeating a call completes a change that was interrupted between effect, stream entry and event id",
    "[readers]") {
  const std::size_t barrier = GENERATE(0U, 1U);
  const bool dismisses = GENERATE(false, true);
  CAPTURE(barrier, dismisses);
  ReaderFixture site;
  FaultyRedis faulty_redis(site.redis);
  readers::RedisReaderStore store(faulty_redis, site.write_queue, site.settings, site.keys(),
                                  [] { return "e"; });
  const auto act = [&]() -> Result<void> {
    if (dismisses) return run_sync(store.dismiss({kReader, ItemId::trusted("a"), "", EventId::trusted("e")}));
    const auto answers = run_sync(
        store.record_interactions({site.make_event("a", Interaction::kLike, UnixSeconds::max(), "e")}));
    return answers ? answers->front() : tl::unexpected(answers.error());
  };
  faulty_redis.lost_after_barrier = barrier;
  CHECK_FALSE(act());
  CHECK(site.stream_entries().size() == barrier);
  for (int i = 0; i < 2; ++i) {
    REQUIRE(act());
    CHECK(site.stream_entries().size() == barrier + 1);  // after that the event is remembered
  }
  CHECK(site.read().interactions.size() + site.read().dismissals.size() == 1);
}

TEST_CASE("views recorded while a history is cleared or merged stay", "[readers]") {
  const bool clears = GENERATE(false, true);
  CAPTURE(clears);
  ReaderFixture site;
  for (const char* item : {"old", "again"}) site.view(item);
  const std::string times = site.keys().view_times("reader");
  site.command("HSET", times, "t:old", 5, "t:again", 6);
  FaultyRedis faulty_redis(site.redis);
  readers::RedisReaderStore store(faulty_redis, site.write_queue, site.settings, site.keys(),
                                  [] { return "e"; });
  faulty_redis.trips_before_hook = 1;
  faulty_redis.hook = [&] {
    for (const char* item : {"again", "new"}) site.view(item);
  };
  if (clears)
    REQUIRE(run_sync(store.clear_views(kReader, ViewKind::kTopic, std::nullopt)));
  else
    REQUIRE(run_sync(store.merge_views(kReader, ReaderId::trusted("other"))));
  CHECK(site.history() == Names{"new", "again"});
  if (!clears) CHECK(site.history("other") == Names{"again", "old"});
}

TEST_CASE("an older view that another worker replays while the history is cleared does not stay",
          "[readers]") {
  const int trips = GENERATE(0, 1);  // before the mark and the read, and after them
  CAPTURE(trips);
  ReaderFixture site;
  site.view("old");
  const UnixSeconds now = site.now();
  FaultyRedis faulty_redis(site.redis);
  readers::RedisReaderStore store(faulty_redis, site.write_queue, site.settings, site.keys(),
                                  [] { return "e"; });
  faulty_redis.trips_before_hook = trips;
  faulty_redis.hook = [&] {
    readers::View view = site.make_view("late");
    view.at = now;
    REQUIRE(run_sync(site.store().record_view(view)));
  };
  REQUIRE(run_sync(store.clear_views(kReader, ViewKind::kTopic, now)));
  CHECK(site.history().empty());
}

TEST_CASE("an event that occurs twice in one request is applied once", "[readers]") {
  ReaderFixture site;
  const auto answers = run_sync(
      site.store().record_interactions({site.make_event("a", Interaction::kLike, UnixSeconds::max(), "e"),
                                        site.make_event("b", Interaction::kLike, UnixSeconds::max(), "e")}));
  REQUIRE(answers);
  CHECK(((*answers)[0] && (*answers)[1]));
  CHECK(site.stream_entries().size() == 1);
}

TEST_CASE("a replayed dismissal that races with its undo stays undone", "[readers]") {
  ReaderFixture site;
  FaultyRedis faulty_redis(site.redis);
  readers::RedisReaderStore store(faulty_redis, site.write_queue, site.settings, site.keys(),
                                  [] { return "e"; });
  const UnixSeconds then = site.now() - seconds{10};
  faulty_redis.trips_before_hook = 1;  // after its read
  faulty_redis.hook = [&] {
    REQUIRE(run_sync(site.store().undo_dismissal(kReader, ItemId::trusted("a"), std::nullopt)));
  };
  REQUIRE(run_sync(store.dismiss({kReader, ItemId::trusted("a"), "", EventId::trusted("e"), then})));
  CHECK(site.read().dismissals.empty());
}

TEST_CASE("an anonymous reader stores the undo of a dismissal only if there may be one", "[readers]") {
  ReaderFixture site;
  const ReaderId visitor = anonymous_reader(VisitorId::trusted("cX"));
  const std::string events = site.keys().reader_event_ids(visitor.view());
  const ItemId dismissed = ItemId::trusted("dismissed");
  for (int i = 0; i < 20; ++i)
    REQUIRE(run_sync(site.store().undo_dismissal(visitor, ItemId::trusted(std::to_string(i)), std::nullopt)));
  CHECK(site.command("EXISTS", events).integer() == 0);
  REQUIRE(run_sync(site.store().undo_dismissal(visitor, ItemId::trusted("replayed"), site.now())));
  CHECK(site.command("ZCARD", events).integer() == 1);
  REQUIRE(run_sync(site.store().dismiss({visitor, dismissed, "", EventId::trusted("e"), {}})));
  REQUIRE(run_sync(site.store().undo_dismissal(visitor, dismissed, std::nullopt)));
  CHECK_FALSE(site.command("ZSCORE", events, kIdMark + std::string("undo:dismissed")).is_nil());
  CHECK(site.read(visitor).dismissals.empty());
}

TEST_CASE("fingerprints that a worker adds during a merge stay; repeating it exceeds no limit", "[readers]") {
  ReaderFixture site;
  site.settings.interactions.max_kept = 10;
  site.settings.interactions.max_excluded = 10 + 20;
  const ReaderId from = ReaderId::trusted("guest");
  const std::string source = site.keys().archived_interactions(from.view()),
                    target = site.keys().archived_interactions(kReader.view());
  const auto prints = [](int first, int last) {
    std::string out;
    for (int i = first; i < last; ++i) out += std::to_string(1000000000 + i);
    return out;
  };
  site.command("SET", target, prints(0, 5));
  site.command("SET", source, prints(3, 18));
  FaultyRedis faulty_redis(site.redis);
  faulty_redis.trips_before_hook = 1;  // after its read
  faulty_redis.hook = [&] { site.command("APPEND", target, prints(50, 51)); };
  const auto copy = [&](redis::Redis& redis) {
    REQUIRE(run_sync(readers::copy_records(redis, site.settings, site.keys(), from, kReader)));
    return std::string(site.command("GET", target).text());
  };
  const std::string joined = prints(0, 5) + prints(50, 51) + prints(5, 18);
  CHECK(copy(faulty_redis) == joined);
  CHECK(copy(site.redis) == joined);
  site.command("SET", source, prints(100, 119));
  CHECK(copy(site.redis) == joined + prints(100, 119));
  site.command("SET", source, prints(200, 219));
  CHECK(copy(site.redis) == joined + prints(100, 119) + prints(217, 219));  // twice the limit
  CHECK(*site.command("TTL", target).integer() > site.settings.interactions.ttl.count() - 60);
}

TEST_CASE("reloading one topic ten times leaves the others in the history", "[readers]") {
  ReaderFixture site;
  for (const char* item : {"a", "b"}) site.view(item);
  for (int i = 0; i < 10; ++i) site.view("a");
  CHECK(site.history() == Names{"a", "b"});
  CHECK(site.command("TYPE", site.keys().view_history(ViewKind::kTopic, "reader")).string().value() ==
        "list");
}

TEST_CASE("repeating a view with the same event id changes nothing for a day", "[readers]") {
  ReaderFixture site;
  auto first = ReaderFixture::make_view("a");
  first.event = EventId::trusted("e");
  REQUIRE(run_sync(site.store().record_view(first)));
  site.view("b");
  REQUIRE(run_sync(site.store().record_view(first)));
  REQUIRE(site.store().spool_history_view(first));
  CHECK(site.history() == Names{"b", "a"});
  // The same id can be used for an interaction, by another reader, and here again a day later.
  CHECK(site.interact(ReaderFixture::make_event("c", Interaction::kLike, UnixSeconds::max(), "e")));
  CHECK(site.read().interactions.size() == 1);
  auto others = first;
  others.reader = ReaderId::trusted("other");
  REQUIRE(run_sync(site.store().record_view(others)));
  CHECK(site.history("other") == Names{"a"});
  site.command("ZADD", site.keys().reader_event_ids("reader"),
               (site.now() - seconds{86401}).time_since_epoch().count(), "\x1eview:e");
  REQUIRE(run_sync(site.store().record_view(first)));
  CHECK(site.history() == Names{"a", "b"});
}

TEST_CASE("an event id that looks like an internal name is an event id", "[readers]") {
  ReaderFixture site;
  auto view = ReaderFixture::make_view("a");
  view.event = EventId::trusted("e");
  REQUIRE(run_sync(site.store().record_view(view)));
  REQUIRE(
      run_sync(site.store().undo_dismissal(ReaderId::trusted("reader"), ItemId::trusted("a"), site.now())));
  for (const char* const event : {"view:e", "undo:a"})
    CHECK(site.interact(ReaderFixture::make_event(event, Interaction::kLike, UnixSeconds::max(), event)));
  CHECK(site.read().interactions.size() == 2);
}

TEST_CASE("the observer is told which items a reader views, uses and dismisses", "[readers]") {
  ReaderFixture site;
  std::vector<std::string> used;
  site.store().on_use(
      [&](const ReaderId& reader, const ItemId& item, std::optional<UnixSeconds>, bool noted) {
        used.push_back(reader.str() + " " + item.str() + (noted ? " noted" : ""));
      });
  site.view("viewed");
  CHECK(site.interact(ReaderFixture::make_event("liked", Interaction::kLike, UnixSeconds::max(), "e")));
  CHECK(site.interact(
      ReaderFixture::make_event("liked", Interaction::kLike, UnixSeconds::max(), "e")));  // repeated
  REQUIRE(run_sync(site.store().dismiss({kReader, ItemId::trusted("dismissed"), {}, {}})));
  REQUIRE(run_sync(site.store().undo_dismissal(kReader, ItemId::trusted("dismissed"), std::nullopt)));
  CHECK(used == Names{"reader viewed noted", "reader liked", "reader dismissed"});
}

TEST_CASE("a view makes the feed check its buffer again", "[readers]") {
  ReaderFixture site;
  const auto state = site.keys().feed_state("reader");
  site.view("a");
  CHECK(site.command("EXISTS", state).integer() == 0);
  site.command("HSET", state, "head", "1 1 1 0 0 0 ");
  site.view("b");
  CHECK(site.command("HGET", state, "noted").text() == "1");
}

TEST_CASE("a history written by another program shows each item once, up to the maximum length",
          "[readers]") {
  ReaderFixture site;
  site.settings.history.size = 3;
  site.reopen();
  const auto list = site.keys().view_history(ViewKind::kTopic, "reader");
  site.command("RPUSH", list, "a", "a", "b", "a", "b", "c", "d");
  CHECK(site.history() == Names{"a", "b", "c"});
  CHECK(ids_of(site.read().topic_views) == Names{"a", "b", "c"});
  site.view("b");
  CHECK(site.history() == Names{"b", "a"});  // cut to three, of which two are the same
}

TEST_CASE("replies have their own history, and both expire with the hash of their times", "[readers]") {
  ReaderFixture site;
  site.view("a");
  site.view("b", "reader", ViewKind::kReply);
  CHECK(site.history() == Names{"a"});
  CHECK(site.history("reader", ViewKind::kReply) == Names{"b"});
  for (const auto& key :
       {site.keys().view_history(ViewKind::kTopic, "reader"),
        site.keys().view_history(ViewKind::kReply, "reader"), site.keys().view_times("reader")}) {
    CHECK(site.ttl(key) > site.settings.history.ttl.count() - 60);
    CHECK(site.ttl(key) <= site.settings.history.ttl.count());
  }
  const auto state = site.read();
  CHECK(ids_of(state.topic_views) == Names{"a"});
  CHECK(ids_of(state.reply_views) == Names{"b"});
  CHECK(site.now() - state.topic_views.front().at <= seconds{30});
}

TEST_CASE("a history's lifetime is renewed once a day, and reduced if history.ttl is", "[readers]") {
  ReaderFixture site;
  const auto ttl = site.settings.history.ttl.count();
  const std::vector<std::string> keys{site.keys().view_history(ViewKind::kTopic, "reader"),
                                      site.keys().view_times("reader")};
  site.view("a");
  const auto ttl_after_view = [&](std::int64_t left, const std::string& item) {
    for (const auto& key : keys) site.command("EXPIRE", key, std::to_string(left));
    site.view(item);
    CHECK(std::abs(site.ttl(keys[0]) - site.ttl(keys[1])) <= 1);
    return site.ttl(keys[0]);
  };
  CHECK(ttl_after_view(ttl - 3600, "b") <= ttl - 3600);
  CHECK(ttl_after_view(ttl - 90000, "c") > ttl - 60);
  CHECK(ttl_after_view(2 * ttl, "d") <= ttl);
  site.command("PERSIST", keys[1]);
  site.view("e");
  CHECK(site.ttl(keys[1]) > 0);
}

TEST_CASE("an item's time leaves the hash with the item, even if the list expired before the hash",
          "[readers]") {
  ReaderFixture site;
  site.settings.history.size = 2;
  site.reopen();
  for (const char* item : {"a", "b", "c"}) site.view(item);
  CHECK(site.recorded_times() == 2);
  CHECK_FALSE(site.command("HEXISTS", site.keys().view_times("reader"), "t:a").integer().value());
  site.view("r", "reader", ViewKind::kReply);
  site.command("DEL", site.keys().view_history(ViewKind::kTopic, "reader"));  // as its TTL would
  site.view("d");
  CHECK(site.recorded_times() == 2);
  CHECK(site.read().topic_views.size() == 1);
}

TEST_CASE("a history is capped, distinct and newest first after any sequence of views, clears and merges",
          "[readers]") {
  const auto seed = GENERATE(std::random_device{}(), 7U);
  CAPTURE(seed);
  ReaderFixture site;
  site.settings.history.size = 5;
  site.reopen();
  std::mt19937 random(seed);
  const auto pick = [&](unsigned below) { return static_cast<unsigned>(random() % below); };
  const Names who{"x", "y"};
  std::map<std::pair<std::string, ViewKind>, std::vector<readers::ViewedItem>> model;
  for (int step = 0; step < 300; ++step) {
    CAPTURE(step);
    const std::string reader = who[pick(2)], item = "i" + std::to_string(pick(9));
    const ViewKind kind = pick(2) == 0 ? ViewKind::kTopic : ViewKind::kReply;
    const unsigned what = pick(20);
    if (what == 0) {
      REQUIRE(run_sync(site.store().clear_views(ReaderId::trusted(reader), kind, std::nullopt)));
      model[{reader, kind}].clear();
    } else if (what == 1) {
      const std::string to = who[pick(2)];
      REQUIRE(run_sync(site.store().merge_views(ReaderId::trusted(reader), ReaderId::trusted(to))));
      for (const ViewKind each : {ViewKind::kTopic, ViewKind::kReply}) {
        if (reader == to) continue;
        auto& list = model[{to, each}];
        for (const readers::ViewedItem& one : std::exchange(model[{reader, each}], {})) {
          const auto known =
              std::find_if(list.begin(), list.end(), [&](auto& v) { return v.item == one.item; });
          known == list.end() ? list.push_back(one) : void(known->at = std::max(known->at, one.at));
        }
        std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.at > b.at; });
        if (list.size() > 5) list.resize(5);
      }
    } else {
      site.view(item, reader, kind);
      auto& list = model[{reader, kind}];
      std::erase_if(list, [&](auto& v) { return v.item.str() == item; });
      list.insert(list.begin(), {ItemId::trusted(item), site.views(reader, kind).front().at});
      if (list.size() > 5) list.resize(5);
    }
    for (const std::string& each : who) {
      std::size_t fields = 0;
      for (const ViewKind of : {ViewKind::kTopic, ViewKind::kReply}) {
        const auto found = site.views(each, of);
        const auto& expected = model[{each, of}];
        REQUIRE(ids_of(found) == ids_of(expected));
        for (std::size_t i = 0; i < found.size(); ++i) REQUIRE(found[i].at == expected[i].at);
        fields += found.size();
      }
      REQUIRE(site.recorded_times(each) == static_cast<std::int64_t>(fields));
    }
  }
}

TEST_CASE("a merged history expires when its newest view would have", "[readers]") {
  ReaderFixture site;
  site.view("a", "guest");
  const auto old = site.now() - site.settings.history.ttl + seconds{1000};
  site.command("HSET", site.keys().view_times("guest"), "t:a", old.time_since_epoch().count());
  REQUIRE(run_sync(site.store().merge_views(ReaderId::trusted("guest"), kReader)));
  CHECK(site.history() == Names{"a"});
  CHECK(site.history("guest").empty());
  for (const auto& key :
       {site.keys().view_history(ViewKind::kTopic, "reader"), site.keys().view_times("reader")}) {
    CHECK(site.ttl(key) <= 1000);
    CHECK(site.ttl(key) > 900);
  }
}

TEST_CASE("nothing of an anonymous reader goes to the recorder, and all of it expires in a week",
          "[readers]") {
  ReaderFixture site;
  site.settings.recorder.stream_max_len = 0;  // full for everyone else
  site.settings.history.ttl = seconds{20 * 86400};
  site.reopen();
  const ReaderId reader = anonymous_reader(VisitorId::trusted("cX"));
  const ItemId item = ItemId::trusted("a"), undone = ItemId::trusted("b");
  REQUIRE(run_sync(site.store().record_view({reader, item, ViewKind::kTopic, EventId::trusted("e")})));
  const auto answers = run_sync(site.store().record_interactions(
      {{reader, item, Interaction::kLike, UnixSeconds::max(), {}},
       {kReader, item, Interaction::kLike, UnixSeconds::max(), {}},
       {reader, undone, Interaction::kLike, UnixSeconds::max(), EventId::trusted("f")}}));
  REQUIRE(answers);
  CHECK(((*answers)[0] && !(*answers)[1] && (*answers)[2]));
  for (const ItemId& each : {item, undone})
    REQUIRE(run_sync(site.store().dismiss({reader, each, "why", EventId::trusted("g" + each.str())})));
  REQUIRE(run_sync(site.store().undo_dismissal(reader, undone, std::nullopt)));
  REQUIRE(run_sync(site.store().remove_view(reader, ViewKind::kTopic, undone, std::nullopt)));
  const auto state = site.read(reader);
  CHECK(ids_of(state.topic_views) == Names{"a"});
  CHECK(state.interactions.size() == 2);
  CHECK(ids_of(state.dismissals) == Names{"a"});
  CHECK(site.stream_entries().empty());
  const std::vector<std::string> keys = site.all_keys();
  CHECK(keys.size() == 6);
  for (const std::string& key : keys) {
    INFO(key);
    CHECK(key.find("cX}") != key.npos);
    CHECK(site.ttl(key) > 0);
    CHECK(site.ttl(key) <= 7 * 86400);
  }
  REQUIRE(run_sync(site.store().clear_views(reader, ViewKind::kTopic, std::nullopt)));
  CHECK(site.ttl(site.keys().view_times(reader.view())) <= 7 * 86400);
}

TEST_CASE("an anonymous reader's spooled writes are applied to Redis only", "[readers]") {
  ReaderFixture site;
  const ReaderId reader = anonymous_reader(VisitorId::trusted("cX"));
  REQUIRE(site.store().spool_history_view({reader, ItemId::trusted("a")}));
  REQUIRE(site.store().spool_dismissal({reader, ItemId::trusted("b"), "", {}}));
  site.write_queue.replay();
  const auto state = site.read(reader);
  CHECK(ids_of(state.topic_views) == Names{"a"});
  CHECK(ids_of(state.dismissals) == Names{"b"});
  CHECK(site.stream_entries().empty());
}

TEST_CASE("a spooled view is inserted by time, once, and never moves an item back", "[readers]") {
  ReaderFixture site;
  for (const char* item : {"old", "new", "again"}) site.view(item);
  REQUIRE(site.store().spool_history_view(site.make_view("late")));
  REQUIRE(site.store().spool_history_view(site.make_view("again")));
  const std::int64_t now = wall_now().time_since_epoch().count();
  site.command("HSET", site.keys().view_times("reader"), "t:old", now - 100, "t:new", now + 5, "t:again",
               now + 9);
  for (int i = 0; i < 2; ++i) {
    site.write_queue.replay();
    CHECK(site.history() == Names{"again", "new", "late", "old"});
  }
  CHECK(site.views()[0].at == UnixSeconds{seconds{now + 9}});
}

TEST_CASE("a spooled clear removes only views from before it", "[readers]") {
  ReaderFixture site;
  for (const char* item : {"before", "after"}) site.view(item);
  site.view("reply", "reader", ViewKind::kReply);
  REQUIRE(site.store().spool_clear_views(kReader, ViewKind::kTopic));
  site.command("HSET", site.keys().view_times("reader"), "t:after",
               wall_now().time_since_epoch().count() + 50);
  site.write_queue.replay();
  CHECK(site.history() == Names{"after"});
  CHECK(site.history("reader", ViewKind::kReply) == Names{"reply"});
  REQUIRE(run_sync(site.store().clear_views(kReader, ViewKind::kTopic, std::nullopt)));
  CHECK(site.history().empty());
  CHECK(site.recorded_times() == 1);
}

TEST_CASE("clearing up to a future time removes only views up to now", "[readers]") {
  ReaderFixture site;
  site.view("before");
  const UnixSeconds to_come = std::chrono::floor<seconds>(wall_now()) + std::chrono::hours(1);
  REQUIRE(run_sync(site.store().clear_views(kReader, ViewKind::kTopic, to_come)));
  CHECK(site.history().empty());
  // Views replayed from a spool count if they are later than now.
  const auto until = site.command("HGET", site.keys().view_times("reader"), "t");
  CHECK(seconds{redis::to_int(until.text())} <= site.now().time_since_epoch());
}

TEST_CASE("one item can be removed from the history", "[readers]") {
  ReaderFixture site;
  for (const char* item : {"first", "second", "third"}) site.view(item);
  site.view("second", "reader", ViewKind::kReply);
  REQUIRE(
      run_sync(site.store().remove_view(kReader, ViewKind::kTopic, ItemId::trusted("second"), std::nullopt)));
  CHECK(site.history() == Names{"third", "first"});
  CHECK(site.history("reader", ViewKind::kReply) == Names{"second"});
  CHECK(site.ttl(site.keys().view_times("reader")) > 0);
  site.view("second");
  CHECK(site.history() == Names{"second", "third", "first"});
}

TEST_CASE("a view from before the removal of its item does not come back from a spool", "[readers]") {
  for (const bool waited : {false, true}) {
    CAPTURE(waited);
    ReaderFixture site;
    REQUIRE(site.store().spool_history_view(site.make_view("kept")));
    REQUIRE(site.store().spool_history_view(site.make_view("removed")));
    if (waited) {  // in the spool of a worker that was replayed first
      auto earlier = std::exchange(site.write_queue.spooled, {});
      REQUIRE(site.store().spool_remove_view(kReader, ViewKind::kTopic, ItemId::trusted("removed")));
      site.write_queue.replay();
      site.write_queue.spooled = std::move(earlier);
    } else {
      REQUIRE(run_sync(
          site.store().remove_view(kReader, ViewKind::kTopic, ItemId::trusted("removed"), std::nullopt)));
    }
    site.write_queue.replay();
    CHECK(site.history() == Names{"kept"});
  }
}

TEST_CASE("a spooled removal leaves an item that was viewed since", "[readers]") {
  ReaderFixture site;
  site.view("again");
  REQUIRE(site.store().spool_remove_view(kReader, ViewKind::kTopic, ItemId::trusted("again")));
  site.command("HSET", site.keys().view_times("reader"), "t:again",
               wall_now().time_since_epoch().count() + 50);
  site.write_queue.replay();
  CHECK(site.history() == Names{"again"});
}

TEST_CASE("removing items that were never viewed does not fill Redis", "[readers]") {
  ReaderFixture site;
  const int most = 10 * static_cast<int>(Settings().history.size);
  for (int i = 0; i < most + 20; ++i) {
    const ItemId item = ItemId::trusted("never-" + std::to_string(i));
    REQUIRE(run_sync(site.store().remove_view(kReader, ViewKind::kTopic, item, std::nullopt)));
  }
  CHECK(site.recorded_times() == most);
}

TEST_CASE("views from before a clear do not come back from a spool", "[readers]") {
  for (const bool waited : {false, true}) {
    CAPTURE(waited);
    ReaderFixture site;
    REQUIRE(site.store().spool_history_view(site.make_view("seen")));
    REQUIRE(site.store().spool_history_view(site.make_view("answered", "reader", ViewKind::kReply)));
    if (waited) {  // in the spool of a worker that was replayed first
      auto earlier = std::exchange(site.write_queue.spooled, {});
      REQUIRE(site.store().spool_clear_views(kReader, ViewKind::kTopic));
      site.write_queue.replay();
      site.write_queue.spooled = std::move(earlier);
    } else {
      REQUIRE(run_sync(site.store().clear_views(kReader, ViewKind::kTopic, std::nullopt)));
    }
    CHECK(site.ttl(site.keys().view_times("reader")) > 0);
    REQUIRE(run_sync(site.store().merge_views(ReaderId::trusted("guest"), kReader)));
    site.write_queue.replay();
    CHECK(site.history().empty());
    CHECK(site.history("reader", ViewKind::kReply) == Names{"answered"});
    site.view("seen");
    CHECK(site.history() == Names{"seen"});
    CHECK(site.recorded_times() == 2);
  }
}

TEST_CASE("an interaction keeps its newest time and is written to the stream", "[readers]") {
  ReaderFixture site;
  const UnixSeconds t{seconds{1700000000}};
  REQUIRE(site.interact(site.make_event("a", Interaction::kLike, t)));
  REQUIRE(site.interact(site.make_event("a", Interaction::kLike, t - seconds{50})));
  REQUIRE(site.interact(site.make_event("a", Interaction::kPost, t - seconds{50})));
  const auto full_ttl = [&] {
    return site.ttl(site.keys().interactions("reader")) > site.settings.interactions.ttl.count() - 60;
  };
  CHECK(full_ttl());  // even if all interactions are old
  REQUIRE(site.interact(site.make_event("b", Interaction::kShare)));
  const auto state = site.read();
  REQUIRE(state.interactions.size() == 3);
  CHECK(state.interactions[0].item.str() == "b");
  CHECK(state.interactions[0].at <= site.now());
  CHECK(site.now() - state.interactions[0].at <= seconds{30});
  CHECK((state.interactions[1].item.str() == "a" && state.interactions[1].kind == Interaction::kLike));
  CHECK(state.interactions[1].at == t);
  CHECK(state.interactions[2].at == t - seconds{50});
  const auto entries = site.stream_entries();
  REQUIRE(entries.size() == 4);
  CHECK(entries[0] == "op=interaction reader=reader item=a kind=l at=1700000000");
  CHECK(full_ttl());
}

TEST_CASE("repeating an event changes nothing for a day", "[readers]") {
  ReaderFixture site;
  const UnixSeconds t{seconds{1700000000}};
  REQUIRE(site.interact(site.make_event("a", Interaction::kLike, t, "e1")));
  REQUIRE(site.interact(site.make_event("a", Interaction::kLike, t + seconds{9}, "e1")));
  CHECK(site.read().interactions[0].at == t);
  CHECK(site.stream_entries().size() == 1);
  const std::string events = site.keys().reader_event_ids("reader");
  CHECK(site.ttl(events) > 86400 - 60);
  const std::int64_t old = site.now().time_since_epoch().count() - 86401;
  site.command("ZADD", events, old, "e1", old, "e0");
  REQUIRE(site.interact(site.make_event("a", Interaction::kLike, t + seconds{9}, "e1")));
  CHECK(site.read().interactions[0].at == t + seconds{9});
  CHECK_FALSE(site.score(events, "e0"));
  REQUIRE(site.dismiss("a", "", "d1"));
  REQUIRE(site.dismiss("b", "", "d1"));
  CHECK(ids_of(site.read().dismissals) == Names{"a"});
}

TEST_CASE("a full stream rejects interactions and dismissals before anything is written", "[readers]") {
  ReaderFixture site;
  site.settings.recorder.stream_max_len = 2;
  site.reopen();
  const auto answers = run_sync(site.store().record_interactions(
      {site.make_event("a", Interaction::kLike), site.make_event("b", Interaction::kLike),
       site.make_event("c", Interaction::kLike, UnixSeconds::max(), "e")}));
  REQUIRE(answers);
  CHECK(((*answers)[0] && (*answers)[1]));
  CHECK(error_of((*answers)[2]).reason == "stream_full");
  CHECK(error_of(site.dismiss("d")).reason == "stream_full");
  CHECK(error_of(run_sync(site.store().undo_dismissal(kReader, ItemId::trusted("d"), std::nullopt))).reason ==
        "stream_full");
  CHECK(site.read().interactions.size() == 2);
  CHECK(site.read().dismissals.empty());
  CHECK_FALSE(site.exists(site.keys().reader_event_ids("reader")));
  CHECK(site.stream_entries().size() == 2);
  // An event that was accepted into the spool waits until the stream has room.
  REQUIRE(site.store().spool_interaction(site.make_event("c", Interaction::kLike)));
  const auto fields = redis::decode_fields(site.write_queue.spooled.front().bytes());
  CHECK(is_unavailable(error_of(run_sync(readers::apply_spool_record(site.store(), fields)))));
  site.command("XTRIM", site.keys().partition(0).stream(), "MAXLEN", "0");
  site.write_queue.replay();
  CHECK(site.read().interactions.size() == 3);
}

TEST_CASE("with items.unknown = reject only events of unknown items are rejected", "[readers]") {
  ReaderFixture site;
  site.settings.items_unknown = "reject";
  site.reopen();
  site.put(site.item("known", UnixSeconds{seconds{1700000000}}));
  const std::size_t before = site.stream_entries().size();
  const auto answers = run_sync(site.store().record_interactions(
      {site.make_event("none", Interaction::kLike), site.make_event("known", Interaction::kLike)}));
  REQUIRE(answers);
  CHECK(error_of((*answers)[0]).reason == "unknown_item");
  CHECK((*answers)[1]);
  CHECK(site.stream_entries().size() == before + 1);
  CHECK(error_of(run_sync(site.store().record_view(site.make_view("none")))).code == ErrorCode::kNotFound);
  CHECK(error_of(site.dismiss("none")).reason == "unknown_item");
  site.view("known");
  CHECK(site.dismiss("known"));
  CHECK(site.history() == Names{"known"});
  site.remove("known");
  CHECK_FALSE(site.dismiss("known"));
}

TEST_CASE("with items.unknown = reject clients' events of invisible items are those of unknown items",
          "[readers]") {
  ReaderFixture site;
  site.settings.items_unknown = "reject";
  site.reopen();
  items::Item item = site.item("i", wall_now() + seconds{3600});
  if (GENERATE(true, false)) {
    item.published_at = wall_now() - seconds{3600};
    item.hidden = true;
  }
  site.put(item);
  const std::size_t before = site.stream_entries().size();
  readers::View view = site.make_view("i");
  CHECK(error_of(run_sync(site.store().record_view(view))).reason == "unknown_item");
  CHECK(error_of(site.dismiss("i")).reason == "unknown_item");
  CHECK(site.history().empty());
  CHECK(site.read().dismissals.empty());
  CHECK(site.stream_entries().size() == before);

  // The site knows its items.
  view.is_from_site = true;
  CHECK(run_sync(site.store().record_view(view)));
  CHECK(run_sync(site.store().dismiss({kReader, item.id, {}, {}, {}, true})));
  const auto answers = run_sync(site.store().record_interactions({site.make_event("i", Interaction::kPost)}));
  REQUIRE(answers);
  CHECK(answers->front());
}

TEST_CASE("a dismissal lasts feedback.ttl, can be undone, and stores its reason", "[readers]") {
  ReaderFixture site;
  site.settings.feedback.max_items = 3;
  site.reopen();
  REQUIRE(site.dismiss("a", "seen it: 100 %"));
  REQUIRE(site.dismiss("b"));
  const std::string key = site.keys().not_interested("reader"),
                    why = site.keys().not_interested_reasons("reader");
  CHECK(redis::string_at(site.command("HMGET", why, "a"), 0) == "seen it: 100 %");
  CHECK(site.ttl(key) > site.settings.feedback.ttl.count() - 60);
  CHECK(site.ttl(why) > site.settings.feedback.ttl.count() - 60);
  const auto stale = site.now() - site.settings.feedback.ttl - seconds{1};
  site.command("ZADD", key, stale.time_since_epoch().count(), "a");
  CHECK(ids_of(site.read().dismissals) == Names{"b"});
  REQUIRE(site.dismiss("c"));
  CHECK_FALSE(site.score(key, "a"));
  CHECK_FALSE(site.exists(why));
  for (const char* item : {"d", "e"}) REQUIRE(site.dismiss(item, "why"));
  CHECK(site.read().dismissals.size() == 3);
  REQUIRE(run_sync(site.store().undo_dismissal(kReader, ItemId::trusted("e"), std::nullopt)));
  CHECK_FALSE(site.score(key, "e"));
  CHECK(site.command("HLEN", why).integer().value() == 1);
  const auto entries = site.stream_entries();
  CHECK(entries.front().starts_with("op=dismiss reader=reader item=a at="));
  CHECK(entries.front().ends_with(" reason=seen it: 100 %"));
  CHECK(entries.back().starts_with("op=undismiss reader=reader item=e at="));
}

TEST_CASE("a spooled dismissal or undo is applied once and yields to later changes", "[readers]") {
  ReaderFixture site;
  REQUIRE(site.store().spool_dismissal({kReader, ItemId::trusted("a"), "", {}}));
  REQUIRE(site.store().spool_undo_dismissal(kReader, ItemId::trusted("b")));
  const std::string key = site.keys().not_interested("reader");
  site.command("ZADD", key, wall_now().time_since_epoch().count() + 50, "b");
  site.write_queue.replay();
  CHECK(site.read().dismissals.size() == 2);
  REQUIRE(run_sync(site.store().undo_dismissal(kReader, ItemId::trusted("a"), std::nullopt)));
  site.write_queue.replay();  // a batch whose reply was lost
  CHECK(ids_of(site.read().dismissals) == Names{"b"});
}

TEST_CASE("a dismissal from before its undo does not come back from a spool", "[readers]") {
  ReaderFixture site;
  REQUIRE(site.store().spool_dismissal({kReader, ItemId::trusted("a"), "", {}}));
  REQUIRE(run_sync(site.store().undo_dismissal(kReader, ItemId::trusted("a"), std::nullopt)));
  site.write_queue.replay();
  CHECK(site.read().dismissals.empty());
  REQUIRE(site.dismiss("a"));
  CHECK(site.read().dismissals.size() == 1);
}

TEST_CASE("a reader with a million interactions stays small", "[readers][long]") {
  ReaderFixture site;
  std::vector<readers::ReaderEvent> batch;
  constexpr int kBatch = 5000;
  const int events = repeat_count(100000, 1000000);  // fewer than the full run, but enough to fill every cap
  const std::int64_t start = 1700000000;
  for (int i = 0; i < events; ++i) {
    // Every fifth interaction has an event id, which makes more ids in a day than are remembered.
    batch.push_back(site.make_event("item" + std::to_string(i), Interaction::kLike,
                                    UnixSeconds{seconds{start + i}},
                                    i % 5 == 0 ? "e" + std::to_string(i) : ""));
    if (batch.size() < kBatch) continue;
    const auto answers = run_sync(site.store().record_interactions(batch));
    REQUIRE(answers);
    REQUIRE(std::all_of(answers->begin(), answers->end(), [](auto& one) { return one.has_value(); }));
    batch.clear();
    site.command("XTRIM", site.keys().partition(0).stream(), "MAXLEN", 0);
  }
  const auto state = site.read();
  REQUIRE(state.interactions.size() == static_cast<std::size_t>(site.settings.interactions.max_kept));
  CHECK(state.interactions.front().item.str() == "item" + std::to_string(events - 1));
  CHECK(site.command("ZCARD", site.keys().interactions("reader")).integer().value() ==
        site.settings.interactions.max_kept);
  CHECK(site.command("ZCARD", site.keys().reader_event_ids("reader")).integer().value() == 10000);
  CHECK(site.bytes(site.keys().interactions("reader")) < 100 * 1024);
  CHECK(state.archived->size() >= static_cast<std::size_t>(site.settings.interactions.max_archived()));
  // 215 KB, plus what APPEND over-allocates
  CHECK(site.bytes(site.keys().archived_interactions("reader")) < 512 * 1024);
  CHECK(site.bytes(site.keys().reader_event_ids("reader")) < 2 * 1024 * 1024);
}

TEST_CASE("old interactions are still known by their fingerprints, in one round trip", "[readers]") {
  // Counts round trips.
  class Counted final : public redis::Redis {
   public:
    explicit Counted(redis::Redis& inner) : inner_(inner) {}
    Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
      ++trips;
      return inner_.run(pipeline);
    }
    bool ready() const override { return true; }
    int trips = 0;

   private:
    redis::Redis& inner_;
  };
  ReaderFixture site;
  site.settings.interactions.max_kept = 10;
  site.settings.interactions.max_excluded = 60;
  site.reopen();
  const std::int64_t start = 1700000000;
  const auto act = [&](int number, Interaction kind) {
    REQUIRE(site.interact(
        site.make_event("i" + std::to_string(number % 1000), kind, UnixSeconds{seconds{start + number}})));
  };
  const auto excluded = [&](int number) {
    const std::string name = "i" + std::to_string(number);
    const auto state = site.read();
    return (state.archived && state.archived->contains(fingerprint(name))) ||
           std::any_of(state.interactions.begin(), state.interactions.end(),
                       [&](auto& each) { return each.item.view() == name; });
  };
  act(0, Interaction::kView);
  for (int i = 1; i < 10; ++i) act(i, Interaction::kPost);
  CHECK(site.read().archived == nullptr);
  for (int i = 10; i < 20; ++i) act(i, Interaction::kReply);
  CHECK_FALSE(excluded(0));  // a long read is not excluded once it is pushed out
  for (int i = 1; i < 20; ++i) CHECK(excluded(i));
  CHECK_FALSE(excluded(20));
  CHECK(site.read().archived->size() == 9);
  CHECK(site.ttl(site.keys().archived_interactions("reader")) ==
        site.ttl(site.keys().interactions("reader")));
  // Repeated interactions with the same items displace nothing.
  for (int round = 1; round < 20; ++round) {
    for (int i = 1; i < 20; ++i) act(1000 * round + i, Interaction::kReply);
  }
  for (int i = 20; i < 60; ++i) act(20000 + i, Interaction::kReply);
  for (int i = 1; i < 60; ++i) CHECK(excluded(i));
  // The oldest are dropped, with up to a tenth more kept.
  for (int i = 60; i < 260; ++i) act(20000 + i, Interaction::kReply);
  for (int i = 200; i < 260; ++i) CHECK(excluded(i));
  for (int i = 1; i < 190; ++i) CHECK_FALSE(excluded(i));

  Counted counted(site.redis);
  readers::RedisReaderStore reads(counted, site.write_queue, site.settings, site.keys(), [] { return "e"; });
  REQUIRE(run_sync(reads.read(kReader)));
  CHECK(counted.trips == 1);
}

TEST_CASE("the memory of a history stays within the bounds in the header", "[readers]") {
  for (const int size : {10, 128}) {
    ReaderFixture site;
    site.settings.history.size = size;
    site.reopen();
    const auto bytes = [&] {
      return site.bytes(site.keys().view_history(ViewKind::kTopic, "reader")) +
             site.bytes(site.keys().view_history(ViewKind::kReply, "reader")) +
             site.bytes(site.keys().view_times("reader"));
    };
    for (int i = 0; i < 3 * size; ++i) site.view(std::to_string(10000000 + i));
    const std::int64_t topics = bytes();
    for (int i = 0; i < 3 * size; ++i) site.view(std::to_string(10000000 + i), "reader", ViewKind::kReply);
    std::cout << size << " views: " << topics << " bytes of topics, " << bytes() << " with as many replies\n";
    CHECK(topics < 300 + 60 * size);
    CHECK(bytes() < 500 + 160 * size);
  }
}

TEST_CASE("a plain list written by another program is read, without times", "[readers]") {
  ReaderFixture site;
  site.command("RPUSH", site.keys().view_history(ViewKind::kTopic, "reader"), "7", "8");
  CHECK(site.history() == Names{"7", "8"});
  CHECK(site.views().front().at == UnixSeconds());
  site.view("8");
  CHECK(site.history() == Names{"8", "7"});
  REQUIRE(run_sync(site.store().merge_views(kReader, ReaderId::trusted("other"))));
  CHECK(site.history("other") == Names{"8", "7"});
}

TEST_CASE("every id of the corpus is stored unchanged", "[readers]") {
  const auto path = shared_path("corpora/BLNS/blns.json");
  if (!path) return;
  std::string text = read_file(*path);
  json::Document document;
  REQUIRE(document.parse(text));
  ReaderFixture site;
  site.settings.history.size = 128;
  site.reopen();
  Names ids;
  for (const json::Value& each : document.root().elements()) {
    const auto id = ItemId::parse(each.text(), "id");
    if (!id || std::find(ids.begin(), ids.end(), id->str()) != ids.end()) continue;
    ids.push_back(id->str());
    const ReaderId reader = ReaderId::trusted(id->str());
    REQUIRE(run_sync(site.store().record_view({reader, *id, ViewKind::kReply})));
    const auto answers = run_sync(site.store().record_interactions(
        {{reader, *id, Interaction::kReply, UnixSeconds::max(), EventId::trusted(id->str())}}));
    REQUIRE((answers && answers->front()));
    REQUIRE(run_sync(site.store().dismiss({reader, *id, std::string(each.text()), {}})));
    const auto state = site.read(reader);
    REQUIRE(ids_of(state.reply_views) == Names{id->str()});
    REQUIRE((state.interactions.size() == 1 && state.interactions[0].item == *id));
    REQUIRE(ids_of(state.dismissals) == Names{id->str()});
  }
  CHECK(ids.size() > 100);
}

TEST_CASE("in a cluster a reader's events go to the stream of the reader's partition", "[readers]") {
  ReaderFixture site;
  site.partitions = 16;
  site.reopen();
  const unsigned readers_own = site.keys().partition_of(kReader.view());
  std::string item = "a";
  while (site.keys().partition_of(item) == readers_own) item += "a";
  REQUIRE(site.interact(ReaderFixture::make_event(item, readers::Interaction::kReply)));
  REQUIRE(site.dismiss(item));
  REQUIRE(run_sync(site.store().undo_dismissal(kReader, ItemId::trusted(item), std::nullopt)));
  for (unsigned g = 0; g < site.partitions; ++g) {
    INFO(g);
    CHECK(site.command("XLEN", site.keys().partition(g).stream()).integer() == (g == readers_own ? 3 : 0));
  }
}
