// Asynchronous rank updates: the latest state wins in whatever order they arrive, and nothing is
// lost when a worker is killed between counting and ranking.
#include "core/hot/rank_updater.h"

#include <random>

#include "core/hot/engagement.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct RankFixture : Fixture {
  // A worker that counts the event and is killed before it flushes.
  void count_only(const hot::TrackEvent& event) {
    DeferredWork unflushed(write_queue, settings, keys());
    hot::RedisHotStore store(redis, unflushed.writers, settings, keys(), [] { return std::string("x"); });
    REQUIRE(run_sync(store.track(event)));
  }
  double expected_score(const std::string& id) {
    const auto s = stats(id);
    return hot::rank_key(hot::base_score({s.pv, s.uv, s.dwell_sum_ms, s.dwell_count}, settings.engagement),
                         s.decay_start, settings.engagement.half_life);
  }
  void run_maintenance() {
    command("DEL", keys().rank_maintenance_lock());
    REQUIRE(run_sync(hot::run_rank_maintenance(redis, settings, keys())));
  }
};

}  // namespace

TEST_CASE_METHOD(RankFixture, "the latest state wins, in whatever order articles are ranked",
                 "[rank_updater]") {
  std::mt19937 random(5);
  write_queue.hold = true;
  for (int i = 0; i < 200; ++i) {
    const std::string id = "a" + std::to_string(random() % 5), visitor = "v" + std::to_string(i);
    track(track_event(id, visitor, static_cast<std::int64_t>(random() % 100000)));
    view(view_event(id, visitor));
  }
  auto held = write_queue.take_held();
  std::shuffle(held.begin(), held.end(), random);
  write_queue.run(held);
  write_queue.run(held);  // repeated: idempotent
  for (int i = 0; i < 5; ++i) {
    const std::string id = "a" + std::to_string(i);
    CHECK(*rank_score(id) == expected_score(id));
    CHECK(rank_score(id, hot::kViewsModel) == redis::parse<double>(field(id, "score")));
    CHECK(text(command("HGET", keys().partition(0).rank_versions(hot::kEngagementModel), id)) <=
          field(id, "v"));
  }
}

TEST_CASE_METHOD(RankFixture, "many events of one article are written as one rank update", "[rank_updater]") {
  write_queue.hold = true;
  for (int i = 0; i < 100; ++i) REQUIRE(run_sync(hot->track(track_event("a", "v" + std::to_string(i), 0))));
  CHECK(deferred->rank_updater.pending() == hot::kModels.size());
  deferred->rank_updater.flush();
  CHECK(deferred->rank_updater.pending() == 0);
  const auto held = write_queue.take_held();
  REQUIRE(held.size() == 1);
  CHECK(held.front().size() == hot::kModels.size());
  deferred->rank_updater.flush();
  CHECK(write_queue.take_held().empty());  // no pending writes, no command
  constexpr std::size_t kReports = hot::RankUpdater::kMaxEntries / hot::kModels.size() + 1;
  for (std::size_t i = 0; i < kReports; ++i)
    REQUIRE(run_sync(hot->track(track_event("b" + std::to_string(i), "v", 0))));
  CHECK(deferred->rank_updater.pending() < hot::kModels.size());  // flushed when full
  const auto held_later = write_queue.take_held();                // with counts of views, a command each
  const auto full = std::ranges::max_element(held_later, {}, [](const auto& each) { return each.size(); });
  REQUIRE(full != held_later.end());
  constexpr std::size_t kCallsPerModel = (kReports + 255) / 256;  // calls of 256 writes
  CHECK(full->size() == kCallsPerModel * hot::kModels.size());
}

TEST_CASE_METHOD(RankFixture, "the flush timer is started once for all pending writes", "[rank_updater]") {
  std::vector<std::function<void()>> timers;
  hot::RankUpdater timed(write_queue, settings, keys(), [&](milliseconds span, std::function<void()> f) {
    CHECK(span == hot::RankUpdater::kFlushInterval);
    timers.push_back(std::move(f));
  });
  for (int i = 1; i < 4; ++i)
    timed.add(hot::kEngagementModel, {"a" + std::to_string(i), 1e6, now(), i}, now());
  REQUIRE(timers.size() == 1);
  timers[0]();
  CHECK(timed.pending() == 0);
  CHECK(command("ZCARD", keys().partition(0).rank(hot::kEngagementModel)).integer() == 3);
  timed.add(hot::kEngagementModel, {"b", 1e6, now(), 1}, now());
  CHECK(timers.size() == 2);
}

namespace {

// Loses what is posted, in a way that each test chooses.
class LossyWriteQueue final : public redis::WriteQueue {
 public:
  bool post(redis::Pipeline commands, std::vector<redis::SpoolRecord>, OnReplies on_replies) override {
    posted.push_back(std::move(commands));
    return lose(on_replies);
  }
  Result<void> spool(const redis::SpoolRecord&) override { return {}; }
  std::function<bool(const OnReplies&)> lose;
  std::vector<redis::Pipeline> posted;
};

// A Redis that executes everything, and whose replies are lost from the call number `from` on.
struct LostReplies final : redis::Redis {
  LostReplies(redis::Redis& to, int first_lost) : target(to), from(first_lost) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    auto replies = co_await target.run(pipeline);
    if (++calls < from) co_return replies;
    co_return fail(ErrorCode::kUnknownOutcome, "redis_lost");
  }
  bool ready() const override { return true; }
  redis::Redis& target;
  const int from;
  int calls = 0;
};

}  // namespace

TEST_CASE_METHOD(RankFixture, "rank updates that Redis has not accepted are sent again", "[rank_updater]") {
  const auto reply = [](auto made) {
    redis::Replies out;
    out.push_back(std::move(made));
    return out;
  };
  const std::int64_t version = unix_s(wall_now()) * 1'000'000;
  LossyWriteQueue lossy;
  std::vector<std::function<void()>> timers;
  hot::RankUpdater updater(lossy, settings, keys(),
                           [&](milliseconds, std::function<void()> f) { timers.push_back(std::move(f)); });
  const auto fire = [&] { std::exchange(timers, {}).at(0)(); };
  updater.add(hot::kEngagementModel, {"a", 1e6, now(), version}, now());

  lossy.lose = [](const auto&) { return false; };  // the queue is full
  fire();
  CHECK(updater.pending() == 1);
  lossy.lose = [](const auto& on_replies) { return on_replies({}), true; };  // the connection is lost
  fire();
  CHECK(updater.pending() == 1);
  lossy.lose = [&](const auto& on_replies) {
    return on_replies(reply(redis::Reply::from_error("LOADING Redis is loading"))), true;
  };
  fire();
  CHECK(updater.pending() == 1);

  // A state that was added meanwhile is later.
  redis::WriteQueue::OnReplies in_flight;
  lossy.lose = [&](const auto& on_replies) { return in_flight = on_replies, true; };
  fire();
  CHECK(updater.pending() == 0);
  updater.add(hot::kEngagementModel, {"a", 2e6, now(), version + 1}, now());
  in_flight({});
  CHECK(updater.pending() == 1);
  fire();
  write_queue.run({lossy.posted.back()});
  CHECK(*rank_score("a") == 2e6);
  in_flight(reply(redis::Reply::from_resp(":1\r\n")));
  CHECK(updater.pending() == 0);
  CHECK(timers.empty());

  constexpr std::int64_t kMaxAgeUs = std::chrono::microseconds(hot::RankUpdater::kMaxAge).count();
  updater.add(hot::kEngagementModel, {"old", 1e6, now(), version - kMaxAgeUs - 1}, now());
  fire();
  in_flight({});
  CHECK(updater.pending() == 0);
}

TEST_CASE_METHOD(RankFixture, "an article whose report counted although the reply was lost is ranked",
                 "[rank_updater]") {
  LostReplies lost(redis, 1);
  hot::RankUpdater& updater = deferred->rank_updater;
  hot::RedisHotStore behind(lost, {write_queue, updater, deferred->contributions, deferred->view_counts},
                            settings, keys(), [] { return "e"; });
  CHECK_FALSE(run_sync(behind.track(track_event("a", "v", 1000))));
  CHECK_FALSE(rank_score("a"));
  CHECK(updater.pending() == 1);
  for (const bool succeeded : {true, false, true, true}) {
    const auto ids = updater.begin_rank_again();
    CHECK(ids == std::vector<std::string>{"a"});
    CHECK(updater.pending() == 1);
    REQUIRE(run_sync(hot::rank_articles(redis, ids, settings, keys())));
    updater.end_rank_again(succeeded);
  }
  CHECK(updater.pending() == 0);
  CHECK(*rank_score("a") == expected_score("a"));
}

TEST_CASE_METHOD(RankFixture, "an unverified article is ranked again if the reply of its script is lost",
                 "[rank_updater]") {
  LostReplies lost(redis, 2);
  hot::RankUpdater& updater = deferred->rank_updater;
  hot::RedisHotStore behind(lost, {write_queue, updater, deferred->contributions, deferred->view_counts},
                            settings, keys(), [] { return "e"; });
  hot::TrackEvent event = track_event("a", "v", 1000);
  event.admission = {.network = "network", .wide_network = "wide"};
  CHECK_FALSE(run_sync(behind.track(event)));
  CHECK(lost.calls == 2);
  CHECK(updater.pending() == 1);
}

TEST_CASE_METHOD(RankFixture, "a bounded number of lost rank updates is kept", "[rank_updater]") {
  LossyWriteQueue lossy;
  lossy.lose = [](const auto&) { return false; };
  hot::RankUpdater updater(lossy, settings, keys());
  const std::int64_t version = unix_s(wall_now()) * 1'000'000;
  for (std::size_t i = 0; i < hot::RankUpdater::kMaxEntries; ++i)
    updater.add(hot::kEngagementModel, {"a" + std::to_string(i), 1e6, now(), version}, now());
  CHECK(updater.pending() == hot::RankUpdater::kMaxEntries / 2);
}

TEST_CASE_METHOD(RankFixture, "events counted by a killed worker are ranked within one scan of all keys",
                 "[rank_updater]") {
  track(track_event("other", "v", 0));
  for (int i = 0; i < 40; ++i) count_only(track_event("a" + std::to_string(i), "v", 100));
  CHECK_FALSE(rank_score("a0"));
  int steps = 0;
  for (; command("ZCARD", keys().partition(0).rank(hot::kEngagementModel)).integer() != 41 && steps < 600;
       ++steps)
    run_maintenance();
  CHECK(steps < 600);
  for (int i = 0; i < 40; ++i)
    CHECK(*rank_score("a" + std::to_string(i)) == expected_score("a" + std::to_string(i)));
  // Without the maintenance turn nothing is done.
  count_only(track_event("a0", "w", 100));
  const auto before = rank_score("a0");
  for (int i = 0; i < 100; ++i) REQUIRE(run_sync(hot::run_rank_maintenance(redis, settings, keys())));
  CHECK(rank_score("a0") == before);
  CHECK(ttl(keys().rank_maintenance_lock()) >= 0);
}

TEST_CASE_METHOD(RankFixture, "on a small site one maintenance run scans a thousand keys", "[rank_updater]") {
  track(track_event("a", "v", 1000));  // creates the rank
  for (int i = 0; i < 3000; ++i) command("SET", "other:" + std::to_string(i), i);
  int turns = 0;
  do {
    run_maintenance();
    ++turns;
  } while (command("HGET", keys().rank_meta(), "cursor").text() != "0");
  CHECK(turns >= 3);
  CHECK(turns <= 5);
}

TEST_CASE_METHOD(RankFixture, "a worker with other parameters ranks nothing, and its events are not lost",
                 "[rank_updater]") {
  track(track_event("a", "v", 1000));
  const double before = *rank_score("a");
  const EngagementSettings old = settings.engagement;
  settings.engagement.half_life = seconds{3600};
  open();
  track(track_event("a", "w", 1000));
  CHECK(*rank_score("a") == before);
  CHECK(command("SISMEMBER", keys().partition(0).unranked(), "a").integer() == 1);
  run_maintenance();  // with the new parameters: the ranks have the old ones
  CHECK(*rank_score("a") == before);
  settings.engagement = old;
  open();
  run_maintenance();
  CHECK(*rank_score("a") == expected_score("a"));
  CHECK_FALSE(exists(keys().partition(0).unranked()));
}

TEST_CASE_METHOD(RankFixture, "events counted with the old parameters during a rebuild are in the new rank",
                 "[rank_updater]") {
  for (int i = 0; i < 5; ++i) track(track_event("a" + std::to_string(i), "v", 1000));
  Settings next = settings;
  next.engagement.half_life = seconds{3600};
  // An old worker counts an event before each command of the rebuild.
  struct Busy final : redis::Redis {
    explicit Busy(RankFixture& rank_fixture) : fixture(rank_fixture) {}
    Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
      fixture.track(Fixture::track_event("a" + std::to_string(n % 5), "w" + std::to_string(n), 1000));
      ++n;
      co_return co_await fixture.redis.run(pipeline);
    }
    bool ready() const override { return true; }
    RankFixture& fixture;
    int n = 0;
  } busy(*this);
  REQUIRE(run_sync(hot::rebuild_ranks(busy, next, keys())));
  CHECK(busy.n > 5);
  track(track_event("a3", "late", 1000));  // an old worker is still running
  settings.engagement = next.engagement;
  open();
  run_maintenance();
  for (int i = 0; i < 5; ++i)
    CHECK(*rank_score("a" + std::to_string(i)) == expected_score("a" + std::to_string(i)));
  CHECK_FALSE(exists(keys().partition(0).unranked()));
  CHECK_FALSE(exists(keys().partition(0).staging_rank_versions(hot::kEngagementModel)));
}

TEST_CASE_METHOD(RankFixture, "late rank updates do not bring back a hidden or removed article",
                 "[rank_updater]") {
  put(item("a", now()));
  put(item("b", now()));
  write_queue.hold = true;
  for (const char* id : {"a", "b"}) {
    track(track_event(id, "v", 1000));
    view(view_event(id, "f"));
  }
  auto hidden = item("a", now());
  hidden.hidden = true;
  put(hidden);
  remove("b");
  write_queue.flush();
  for (const auto& key :
       {keys().partition(0).rank(hot::kEngagementModel), keys().partition(0).rank(hot::kViewsModel),
        keys().partition(0).published(), keys().partition(0).rank_versions(hot::kEngagementModel),
        keys().partition(0).rank_versions(hot::kViewsModel)})
    CHECK_FALSE(exists(key));
}

TEST_CASE_METHOD(RankFixture, "an earlier state does not bring back an article that left the rank",
                 "[rank_updater]") {
  settings.list.max_members = 3;
  open();
  put(item("a", now()));
  write_queue.hold = true;
  for (const char* visitor : {"v", "w", "x"}) track(track_event("a", visitor, 60000));
  const auto late = write_queue.take_held();
  write_queue.hold = false;
  SECTION("below the minimum score") { put(item("a", UnixSeconds{seconds{86400}})); }
  SECTION("beyond the maximum number of members") {
    for (const char* id : {"b", "c", "d"}) {
      put(item(id, now()));
      track(track_event(id, "v", 1000));
    }
    put(item("a", now() - std::chrono::hours(24 * 20)));
  }
  SECTION("without a score") {
    const hot::RankWrite no_score{"a", std::nullopt, now(), std::stoll(field("a", "v")) + 1};
    hot::RankWrites writes;
    writes.fill({no_score});
    redis::Pipeline command;
    hot::append_rank_writes(command, writes, now(), settings, keys());
    REQUIRE(redis.call_all(command));
  }
  write_queue.run(late);
  CHECK_FALSE(rank_score("a"));
}

TEST_CASE_METHOD(RankFixture, "versions of articles that left the rank are removed", "[rank_updater]") {
  settings.list.max_members = 5;
  open();
  const auto versions = keys().partition(0).rank_versions(hot::kEngagementModel);
  const auto add_versions = [&](const std::string& name, int count, UnixSeconds at) {
    const auto version = std::chrono::microseconds(at.time_since_epoch()).count();
    for (int i = 0; i < count; ++i)
      command("HSET", versions, name + std::to_string(i), std::to_string(version));
  };
  const auto remaining = [&](const std::string& name) {
    const auto names = command("HKEYS", versions);
    int count = 0;
    for (std::size_t i = 0; i < names.size(); ++i) count += redis::string_at(names, i).starts_with(name);
    return count;
  };
  int articles = 0;
  const auto add_article = [&] {
    track(track_event("a" + std::to_string(articles), "v", articles * 1000));
    ++articles;
  };
  SECTION("after ten minutes") {
    add_versions("old", 200, now() - std::chrono::minutes(11));
    while (remaining("old") > 0 && articles < 1000) add_article();
    CHECK(remaining("old") == 0);
    CHECK(remaining("a") == articles);
  }
  SECTION("at once if they are too many") {
    add_versions("recent", 2000, now());
    while (remaining("recent") > 1000 && articles < 1000) add_article();
    CHECK(remaining("recent") <= 1000);
  }
  SECTION("only while something leaves") {
    add_versions("old", 200, now() - std::chrono::minutes(11));
    for (int i = 0; i < 5; ++i) add_article();
    CHECK(remaining("old") == 200);
  }
}

TEST_CASE_METHOD(RankFixture, "maintenance ranks an article that left the rank when there is room again",
                 "[rank_updater]") {
  settings.list.max_members = 2;
  open();
  for (const char* id : {"a", "b", "c"}) put(item(id, now()));
  track(track_event("a", "v", 0));
  for (const char* id : {"b", "c"}) track(track_event(id, "v", 60000));
  CHECK_FALSE(rank_score("a"));
  settings.list.max_members = 10;
  open();
  const auto version = std::chrono::microseconds((now() - std::chrono::minutes(11)).time_since_epoch());
  command("HSET", keys().article("a"), "v", std::to_string(version.count()));
  command("HSET", keys().partition(0).rank_versions(hot::kEngagementModel), "a",
          std::to_string(version.count()));
  const std::vector<std::string> ids{"a"};
  REQUIRE(run_sync(hot::rank_articles(redis, ids, settings, keys())));
  CHECK(rank_score("a"));
}

TEST_CASE_METHOD(RankFixture, "ranking articles without counters again changes nothing in Redis",
                 "[rank_updater]") {
  std::vector<std::string> ids;
  const auto version = std::chrono::microseconds((now() - std::chrono::minutes(11)).time_since_epoch());
  for (int i = 0; i < 20; ++i) {
    ids.push_back("a" + std::to_string(i));
    put(item(ids.back(), now()));
    command("HSET", keys().article(ids.back()), "v", std::to_string(version.count()));
  }
  const auto changes = [this] {
    const std::string info = text(command("INFO", "persistence"));
    return std::stoll(info.substr(info.find("rdb_changes_since_last_save:") + 28));
  };
  REQUIRE(run_sync(hot::rank_articles(redis, ids, settings, keys())));
  const auto before = changes();
  REQUIRE(run_sync(hot::rank_articles(redis, ids, settings, keys())));
  CHECK(changes() == before);
}
