// Places that follow behind events: the last state stays, in whatever order it comes, and nothing
// is lost when a worker dies between counting and placing.
#include "core/hot/rank_updater.h"

#include <random>

#include "core/hot/engagement.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct Place : Fixture {
  // A worker that counts and is killed.
  void count_only(const hot::TrackEvent& event) {
    DeferredWork lost(write_queue, settings, keys());
    hot::RedisHotStore dying(redis, lost.writers, settings, keys(), [] { return std::string("x"); });
    REQUIRE(run_sync(dying.track(event)));
  }
  double due(const std::string& id) {
    const auto s = stats(id);
    return hot::rank_key(hot::base_score({s.pv, s.uv, s.dwell_sum_ms, s.dwell_count}, settings.engagement),
                         s.decay_start, settings.engagement.half_life);
  }
  void look_after() {
    command("DEL", keys().rank_maintenance_lock());
    REQUIRE(run_sync(hot::run_rank_maintenance(redis, settings, keys())));
  }
};

}  // namespace

TEST_CASE_METHOD(Place, "in whatever order articles are placed, the last state stays", "[placing]") {
  std::mt19937 random(5);
  write_queue.hold = true;
  for (int i = 0; i < 200; ++i) {
    const std::string id = "a" + std::to_string(random() % 5), who = "v" + std::to_string(i);
    track(track_event(id, who, static_cast<std::int64_t>(random() % 100000)));
    view(view_event(id, who));
  }
  auto held = write_queue.take_held();
  std::shuffle(held.begin(), held.end(), random);
  write_queue.run(held);
  write_queue.run(held);  // repeated: harmless
  for (int i = 0; i < 5; ++i) {
    const std::string id = "a" + std::to_string(i);
    CHECK(*rank_score(id) == due(id));
    CHECK(rank_score(id, hot::kViewsModel) == redis::parse<double>(field(id, "score")));
    CHECK(text(command("HGET", keys().partition(0).rank_versions(hot::kEngagementModel), id)) <= field(id, "v"));
  }
}

TEST_CASE_METHOD(Place, "of an article that comes again and again one place is written", "[placing]") {
  write_queue.hold = true;
  for (int i = 0; i < 100; ++i) REQUIRE(run_sync(hot->track(track_event("a", "v" + std::to_string(i), 0))));
  CHECK(deferred->rank_updater.pending() == 1);
  deferred->rank_updater.flush();
  CHECK(deferred->rank_updater.pending() == 0);
  const auto held = write_queue.take_held();
  REQUIRE(held.size() == 1);
  CHECK(held.front().size() == 1);
  deferred->rank_updater.flush();
  CHECK(write_queue.take_held().empty());  // nothing is written for nothing
  for (std::size_t i = 0; i < hot::RankUpdater::kMaxEntries; ++i)
    REQUIRE(run_sync(hot->track(track_event("b" + std::to_string(i), "v", 0))));
  CHECK(deferred->rank_updater.pending() == 0);  // as many do not wait
  const auto full = write_queue.take_held();
  REQUIRE(full.size() == 1);
  CHECK(full.front().size() == hot::RankUpdater::kMaxEntries / 256);  // of a call
}

TEST_CASE_METHOD(Place, "the timer is set once for all that waits", "[placing]") {
  std::vector<std::function<void()>> timers;
  hot::RankUpdater timed(write_queue, settings, keys(), [&](milliseconds span, std::function<void()> f) {
    CHECK(span == hot::RankUpdater::kFlushInterval);
    timers.push_back(std::move(f));
  });
  for (int i = 1; i < 4; ++i) timed.add(hot::kEngagementModel, {"a" + std::to_string(i), 1e6, now(), i}, now());
  REQUIRE(timers.size() == 1);
  timers[0]();
  CHECK(timed.pending() == 0);
  CHECK(command("ZCARD", keys().partition(0).rank(hot::kEngagementModel)).integer() == 3);
  timed.add(hot::kEngagementModel, {"b", 1e6, now(), 1}, now());
  CHECK(timers.size() == 2);
}

TEST_CASE_METHOD(Place, "what a killed worker counted is placed within a walk over all keys", "[placing]") {
  track(track_event("other", "v", 0));
  for (int i = 0; i < 40; ++i) count_only(track_event("a" + std::to_string(i), "v", 100));
  CHECK_FALSE(rank_score("a0"));
  int steps = 0;
  for (; command("ZCARD", keys().partition(0).rank(hot::kEngagementModel)).integer() != 41 && steps < 600; ++steps)
    look_after();
  CHECK(steps < 600);
  for (int i = 0; i < 40; ++i) CHECK(*rank_score("a" + std::to_string(i)) == due("a" + std::to_string(i)));
  // Who has no turn does nothing.
  count_only(track_event("a0", "w", 100));
  const auto before = rank_score("a0");
  for (int i = 0; i < 100; ++i) REQUIRE(run_sync(hot::run_rank_maintenance(redis, settings, keys())));
  CHECK(rank_score("a0") == before);
  CHECK(ttl(keys().rank_maintenance_lock()) >= 0);
}

TEST_CASE_METHOD(Place, "of a small site a turn of the walk takes a thousand keys", "[placing]") {
  track(track_event("a", "v", 1000));  // who made the rank
  for (int i = 0; i < 3000; ++i) command("SET", "other:" + std::to_string(i), i);
  int turns = 0;
  do {
    look_after();
    ++turns;
  } while (command("HGET", keys().rank_meta(), "cursor").text() != "0");
  CHECK(turns >= 3);
  CHECK(turns <= 5);
}

TEST_CASE_METHOD(Place, "a worker with another formula places nothing, and what it counted is not lost",
                 "[placing]") {
  track(track_event("a", "v", 1000));
  const double before = *rank_score("a");
  const EngagementSettings old = settings.engagement;
  settings.engagement.half_life = seconds{3600};
  open();
  track(track_event("a", "w", 1000));
  CHECK(*rank_score("a") == before);
  CHECK(command("SISMEMBER", keys().partition(0).unranked(), "a").integer() == 1);
  look_after();  // by the new ones: not theirs yet
  CHECK(*rank_score("a") == before);
  settings.engagement = old;
  open();
  look_after();
  CHECK(*rank_score("a") == due("a"));
  CHECK_FALSE(exists(keys().partition(0).unranked()));
}

TEST_CASE_METHOD(Place, "what is counted while a rank is made anew, by the old formula, is in the new one",
                 "[placing]") {
  for (int i = 0; i < 5; ++i) track(track_event("a" + std::to_string(i), "v", 1000));
  Settings next = settings;
  next.engagement.half_life = seconds{3600};
  // Before each command of the rebuild an old worker counts.
  struct Busy final : redis::Redis {
    explicit Busy(Place& of) : place(of) {}
    Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
      place.track(Fixture::track_event("a" + std::to_string(n % 5), "w" + std::to_string(n), 1000));
      ++n;
      co_return co_await place.redis.run(pipeline);
    }
    bool ready() const override { return true; }
    Place& place;
    int n = 0;
  } busy(*this);
  REQUIRE(run_sync(hot::rebuild_ranks(busy, next, keys())));
  CHECK(busy.n > 5);
  track(track_event("a3", "late", 1000));  // an old worker lives still
  settings.engagement = next.engagement;
  open();
  look_after();
  for (int i = 0; i < 5; ++i) CHECK(*rank_score("a" + std::to_string(i)) == due("a" + std::to_string(i)));
  CHECK_FALSE(exists(keys().partition(0).unranked()));
  CHECK_FALSE(exists(keys().partition(0).staging_rank_versions(hot::kEngagementModel)));
}

TEST_CASE_METHOD(Place, "an article that is hidden or removed is not placed by what was counted before",
                 "[placing]") {
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
  for (const auto& key : {keys().partition(0).rank(hot::kEngagementModel), keys().partition(0).rank(hot::kViewsModel),
                          keys().partition(0).published(), keys().partition(0).rank_versions(hot::kEngagementModel),
                          keys().partition(0).rank_versions(hot::kViewsModel)})
    CHECK_FALSE(exists(key));
}

TEST_CASE_METHOD(Place, "versions are kept of members alone", "[placing]") {
  settings.list.max_members = 5;
  open();
  for (int i = 0; i < 30; ++i) {
    track(track_event("a" + std::to_string(i), "v", i * 1000));
    view(view_event("a" + std::to_string(i), "f"));
  }
  CHECK(command("HLEN", keys().partition(0).rank_versions(hot::kEngagementModel)).integer() == 5);
  CHECK(command("HLEN", keys().partition(0).rank_versions(hot::kViewsModel)).integer() == 5);
  remove("a29");
  CHECK(command("HLEN", keys().partition(0).rank_versions(hot::kEngagementModel)).integer() == 4);
}
