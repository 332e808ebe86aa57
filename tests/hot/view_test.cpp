// View counters in Redis: window dedup, the day's first view, accumulated and current scores.
#include "core/hot/threshold_top_k.h"
#include "core/hot/views.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

TEST_CASE_METHOD(Fixture, "the first view of the day counts three, for each fingerprint", "[view]") {
  auto event = view_event("a", "f1");
  event.published_at = now();
  const auto first = view(event);
  CHECK_FALSE(first.dedup);
  CHECK(first.first_today);
  CHECK(first.score_inc == Approx(3 / std::pow(2.0, 1.5)).epsilon(1e-3));
  CHECK(view(view_event("a", "f2")).first_today);
  CHECK(stats("a").views_total == 6);
  CHECK(stats("a").views_pv == 2);
  CHECK(stats("a").uv_today == 2);
}

TEST_CASE_METHOD(Fixture, "a second view within the window is a duplicate and changes nothing", "[view]") {
  view(view_event("a", "f"));
  const auto before = stats("a");
  const auto again = view(view_event("a", "f"));
  CHECK(again.dedup);
  CHECK(stats("a").views_total == before.views_total);
  CHECK(rank_score("a", hot::kViewsModel) == before.position(hot::kViewsModel).score);
}

TEST_CASE_METHOD(Fixture, "after the window the same fingerprint counts one, not three, on the same day",
                 "[view]") {
  view(view_event("a", "f"));
  command("DEL", keys().dedup("a", "f"));
  const auto again = view(view_event("a", "f"));
  CHECK_FALSE(again.dedup);
  CHECK_FALSE(again.first_today);
  CHECK(stats("a").views_total == 4);
}

TEST_CASE_METHOD(Fixture,
                 "a dedup key expires after ten minutes and the day's visitors three days after the first",
                 "[view]") {
  view(view_event("a", "f"));
  CHECK(has_new_ttl(keys().dedup("a", "f"), 600));
  const auto day = keys().uv_day("a", now());
  CHECK(has_new_ttl(day, 3 * 86400));
  command("EXPIRE", day, 1000);
  view(view_event("a", "g"));
  CHECK(ttl(day) <= 1000);
}

TEST_CASE_METHOD(Fixture,
                 "an article's views expire thirty days after the last one and are renewed once a day",
                 "[view]") {
  view(view_event("a", "f"));
  const std::string key = keys().article("a");
  CHECK(has_new_ttl(key, 30 * 86400));
  command("EXPIRE", key, 1000);
  command("HSET", key, "viewed", now().time_since_epoch().count() - 86300);
  view(view_event("a", "g"));
  CHECK(ttl(key) <= 1000);
  command("HSET", key, "viewed", now().time_since_epoch().count() - 86500);
  view(view_event("a", "h"));
  CHECK(has_new_ttl(key, 30 * 86400));
}

TEST_CASE_METHOD(Fixture, "the day is Redis' UTC day: a host with a wrong date counts under the right key",
                 "[view]") {
  const auto k = keys();
  redis::Pipeline wrong;
  const auto day = now().time_since_epoch().count() / 86400 + 1;
  wrong.script(scripts::kView)
      .key(k.article("a"))
      .key(k.dedup("a", "f"))
      .key(k.uv_day("a", UnixSeconds{seconds{day * 86400}}));
  wrong.arg("f").arg("").arg(day).arg("").arg(600).arg(259200).arg(2592000);
  wrong.arg(1).arg(2).arg(2).arg(1.5).arg(0);
  const auto replies = redis.call(wrong);
  REQUIRE(replies);
  CHECK(replies->front().error() == "DAY " + std::to_string(day - 1));
  CHECK(all_keys().empty());
}

TEST_CASE_METHOD(Fixture, "a replayed view counts with its own time, but never with a time in the future",
                 "[view]") {
  auto old = view_event("old", "f"), ahead = view_event("ahead", "f");
  old.occurred_at = now() - seconds{7200};
  ahead.occurred_at = now() + seconds{99999};
  put(item("ahead", now()));
  view(old);
  CHECK(redis::to_int(field("old", "first")) == unix_s(*old.occurred_at));
  CHECK(view(ahead).score_inc == Approx(3 / std::pow(2.0, 1.5)).epsilon(1e-2));
}

TEST_CASE_METHOD(Fixture, "a repeated event id returns the first outcome, not dedup", "[view]") {
  auto event = view_event("a", "f");
  event.event_id = EventId::trusted("e");
  const auto first = view(event);
  const auto again = view(event);
  CHECK_FALSE(again.dedup);
  CHECK(again.score_inc == first.score_inc);
  CHECK(stats("a").views_pv == 1);
}

TEST_CASE_METHOD(Fixture, "an event id that was a duplicate stays one after the window", "[view]") {
  view(view_event("a", "f"));
  auto event = view_event("a", "f");
  event.event_id = EventId::trusted("e");
  CHECK(view(event).dedup);
  command("DEL", keys().dedup("a", "f"));
  CHECK(view(event).dedup);
  CHECK(stats("a").views_pv == 1);
  CHECK(has_new_ttl(keys().view_event("a", "e"), 86400));
}

TEST_CASE_METHOD(Fixture, "one event id used for a report and a view of an article counts both", "[view]") {
  auto reading = track_event("a", "v", 1000);
  auto looking = view_event("a", "f");
  reading.event_id = looking.event_id = EventId::trusted("e");
  CHECK(track(reading).pv == 1);
  CHECK(view(looking).first_today);
}

TEST_CASE_METHOD(Fixture, "a spooled view counts once however often it is replayed", "[view]") {
  REQUIRE(hot->spool_view(view_event("a", "f")));
  write_queue.replay();
  write_queue.replay();
  CHECK(stats("a").views_pv == 1);
}

TEST_CASE_METHOD(Fixture, "a forged publish time of a known item changes nothing", "[view]") {
  put(item("a", now() - seconds{72 * 3600}));
  auto event = view_event("a", "f");
  event.published_at = now();
  CHECK(view(event).score_inc == Approx(3 / std::pow(74.0, 1.5)).epsilon(1e-4));
}

TEST_CASE_METHOD(Fixture, "a publish time in the future counts as now", "[view]") {
  auto event = view_event("a", "f");
  event.published_at = now() + seconds{86400 * 300};
  CHECK(view(event).score_inc == Approx(3 / std::pow(2.0, 1.5)).epsilon(1e-3));
  put(item("b", now() + seconds{86400}));
  CHECK(view(view_event("b", "f")).score_inc == Approx(3 / std::pow(2.0, 1.5)).epsilon(1e-9));
}

TEST_CASE_METHOD(Fixture, "configured weights, base and exponent are used", "[view]") {
  settings.views.pv_weight = 2;
  settings.views.uv_weight = 5;
  settings.views.base_hours = 3;
  settings.views.gamma = 2;
  open();
  put(item("a", now() - seconds{7 * 3600}));
  CHECK(view(view_event("a", "f")).score_inc == Approx(0.07).epsilon(1e-3));
  command("DEL", keys().dedup("a", "f"));
  CHECK(view(view_event("a", "f")).score_inc == Approx(0.02).epsilon(1e-3));
  CHECK(stats("a").views_total == 9);
}

TEST_CASE_METHOD(Fixture, "hot:score is the sum of the views' increments", "[view]") {
  put(item("a", now() - seconds{5 * 3600}));
  double sum = 0;
  for (int i = 0; i < 50; ++i) sum += view(view_event("a", "f" + std::to_string(i))).score_inc;
  CHECK(score(keys().partition(0).rank(hot::kViewsModel), "a").value_or(0) == Approx(sum).epsilon(1e-12));
}

TEST_CASE_METHOD(Fixture, "an item's accumulated score continues after its counters expired", "[view]") {
  put(item("a", now()));
  view(view_event("a", "f"));
  view(view_event("a", "h"));
  const double before = score(keys().partition(0).rank(hot::kViewsModel), "a").value_or(0);
  command("HSET", keys().article("a"), "viewed", unix_s(now()) - 30 * 86400);
  CHECK(stats("a").views_pv == 0);
  const double inc = view(view_event("a", "g")).score_inc;
  CHECK(score(keys().partition(0).rank(hot::kViewsModel), "a").value_or(0) == before + inc);
  CHECK(stats("a").views_total == 3);
  const auto heads = run_sync(hot->bucket_heads({{now().time_since_epoch().count() / 3600}}, 0, 10));
  REQUIRE(heads);
  REQUIRE(heads->size() == 1);
  CHECK(heads->front().total == 3);  // the old total does not hide that the sum started over
}

TEST_CASE_METHOD(Fixture, "a view that is ranked late does not undo a later one", "[view]") {
  write_queue.hold = true;
  put(item("a", now() - seconds{7200}));
  view(view_event("a", "f1"));
  write_queue.hold = false;
  auto early = write_queue.take_held();
  view(view_event("a", "f2"));
  write_queue.run(early);
  const auto hour = (now() - seconds{7200}).time_since_epoch().count() / 3600;
  const auto heads = run_sync(hot->bucket_heads({{hour}}, 0, 10));
  REQUIRE(heads);
  REQUIRE(heads->size() == 1);
  CHECK(heads->front().total == 6);
  CHECK(score(keys().partition(0).rank(hot::kViewsModel), "a") == rank_score("a", hot::kViewsModel));
}

TEST_CASE_METHOD(Fixture, "the index drops buckets that are gone and corrects bounds that are too high",
                 "[view]") {
  command("ZADD", keys().partition(0).current_bucket_index(), 50, 1000, 9, 2000);
  command("ZADD", keys().partition(0).current_bucket(1000), 7, "a");
  command("ZADD", keys().partition(0).published(), 1000 * 3600, "a");
  REQUIRE(run_sync(hot->bucket_heads({{1000}, {2000}}, 0, 5)));
  const auto remaining = run_sync(hot->buckets());
  REQUIRE(remaining);
  REQUIRE(remaining->size() == 1);
  CHECK(remaining->front().name.hour == 1000);
  CHECK(remaining->front().max_total == 7);
}

TEST_CASE_METHOD(Fixture, "a bucket's bound is its greatest total, not the last", "[view]") {
  for (const std::string id : {"a", "b"}) put(item(id, now() - seconds{86400}));
  view(view_event("a", "f1"));
  view(view_event("a", "f2"));
  view(view_event("b", "f1"));
  const auto bounds = run_sync(hot->buckets());
  REQUIRE(bounds);
  REQUIRE(bounds->size() == 1);
  CHECK(bounds->front().max_total == 6);
}

TEST_CASE_METHOD(Fixture, "the bound of articles that are ranked together is the greatest total", "[view]") {
  const UnixSeconds published = now() - seconds{86400};
  for (int i = 0; i < 8; ++i) {
    const std::string id(1, static_cast<char>('a' + i));
    put(item(id, published));
    for (int v = 0; v <= i; ++v) REQUIRE(run_sync(hot->view(view_event(id, "f" + std::to_string(v)))));
  }
  flush_deferred();
  const auto bounds = run_sync(hot->buckets());
  REQUIRE(bounds);
  REQUIRE(bounds->size() == 1);
  CHECK(bounds->front().max_total == 24);
  const std::int64_t hour = unix_s(published) / kHourSeconds;
  CHECK(command("ZCARD", keys().partition(0).current_bucket(hour)).integer() == 8);
  CHECK(has_new_ttl(keys().partition(0).current_bucket(hour), 30 * 86400));
}

TEST_CASE_METHOD(Fixture, "a member left in the bucket of another hour is removed, not served", "[view]") {
  command("ZADD", keys().partition(0).current_bucket(1000), 7, "a", 5, "b");
  command("ZADD", keys().partition(0).published(), 1000 * 3600, "b", 2000 * 3600, "a");
  const auto heads = run_sync(hot->bucket_heads({{1000}}, 0, 5));
  REQUIRE(heads);
  REQUIRE(heads->size() == 1);
  CHECK(heads->front().item.str() == "b");
  CHECK_FALSE(score(keys().partition(0).current_bucket(1000), "a"));
}

namespace {

// Calls `work` once, after the members' dates have been read.
class InterruptingRedis final : public redis::Redis {
 public:
  InterruptingRedis(redis::Redis& inner, std::function<void()> work)
      : inner_(inner), work_(std::move(work)) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    auto replies = co_await inner_.run(pipeline);
    if (pipeline.at(0).find("hot:published") != std::string_view::npos && work_)
      std::exchange(work_, nullptr)();
    co_return replies;
  }
  bool ready() const override { return true; }

 private:
  redis::Redis& inner_;
  std::function<void()> work_;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a member added to a bucket during its repair stays, and is within the bound",
                 "[view]") {
  command("ZADD", keys().partition(0).current_bucket_index(), 50, 1000);
  command("ZADD", keys().partition(0).current_bucket(1000), 7, "a", 5, "b");
  command("ZADD", keys().partition(0).published(), 1000 * 3600, "b", 2000 * 3600, "a");
  InterruptingRedis slow(redis, [&] {
    command("ZADD", keys().partition(0).published(), 1000 * 3600, "a", 1000 * 3600, "c");  // re-dated back
    command("ZADD", keys().partition(0).current_bucket(1000), 9, "c");
    command("ZADD", keys().partition(0).current_bucket_index(), "GT", 9, 1000);
  });
  hot::RedisHotStore late(slow, deferred->writers, settings, keys(), [] { return std::string("e"); });
  const auto heads = run_sync(late.bucket_heads({{1000}}, 0, 5));
  REQUIRE(heads);
  CHECK(heads->size() == 3);
  CHECK(run_sync(hot->buckets())->front().max_total == 9);
}
