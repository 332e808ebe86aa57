// Seed 001 as stored: what one report changes, and what it must never change.
#include <cmath>
#include <cstdio>

#include "core/hot/engagement.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

// track.lua with any text where the store would put numbers, as a broken client of the script would.
redis::Reply raw_track(Fixture& f, const std::string& id, const std::string& dwell,
                       const std::string& at = "", const std::string& half_life = "86400") {
  const auto keys = f.keys();
  redis::Pipeline one;
  one.script(scripts::kTrack, 9, 17)
      .arg(keys.pv(id))
      .arg(keys.uv_hll(id))
      .arg(keys.dwell_sum(id))
      .arg(keys.dwell_count(id))
      .arg(keys.first_ts(id))
      .arg(keys.item(id))
      .arg(keys.session(id, "s"))
      .arg(keys.rank())
      .arg(keys.published());
  one.arg(id).arg("visitor").arg(dwell).arg("").arg(at).arg(0).arg(1800).arg(2592000);
  one.arg("1 3 0.002 0 0 " + half_life).arg(180000).arg(-30).arg(1000).arg(0).arg("").arg(0).arg(0).arg(0);
  auto replies = f.redis.call(one);
  REQUIRE(replies);
  return std::move(replies->front());
}

}  // namespace

TEST_CASE_METHOD(Fixture, "the first report counts one view, one visitor and its dwell", "[track]") {
  const auto counts = track(report("a", "v1", 5000));
  CHECK(counts.pv == 1);
  CHECK(counts.uv == 1);
  CHECK(counts.avg_dwell_ms == 5000);
  CHECK(counts.score == Approx(1 + 3 + 10).epsilon(1e-4));
}

TEST_CASE_METHOD(Fixture, "the script's reply is text of %.17g numbers, digit for digit", "[track]") {
  CHECK(text(raw_track(*this, "a", "3333")) == "1 1 3333 10.666");
  command("SET", keys().session("a", "s"), 0);
  command("INCR", keys().dwell_count("a"));
  command("INCR", keys().dwell_count("a"));
  // 3333/3 ms; then 2·1 … with a mean that has no end in binary: Lua would have cut it to an integer.
  command("INCR", keys().dwell_sum("a"));
  const std::string reply = text(raw_track(*this, "a", "0"));
  char mean[40];
  std::snprintf(mean, sizeof mean, "%.17g", 3334.0 / 3.0);
  CHECK(reply.substr(0, reply.rfind(' ')) == std::string("1 1 ") + mean);
  CHECK(reply == "1 1 1111.3333333333333 6.222666666666667");
}

TEST_CASE_METHOD(Fixture, "a heartbeat counts no view and never lowers the session's dwell", "[track]") {
  track(report("a", "v", 10000));
  auto counts = track(report("a", "v", 30000));
  CHECK(counts.pv == 1);
  CHECK(counts.avg_dwell_ms == 30000);
  counts = track(report("a", "v", 20000));
  CHECK(counts.pv == 1);
  CHECK(counts.avg_dwell_ms == 30000);
  counts = track(report("a", "v", 31000));
  CHECK(counts.avg_dwell_ms == 31000);
}

TEST_CASE_METHOD(Fixture, "two sessions of one visitor are two views and one visitor", "[track]") {
  track(report("a", "v", 1000, "s1"));
  const auto counts = track(report("a", "v", 3000, "s2"));
  CHECK(counts.pv == 2);
  CHECK(counts.uv == 1);
  CHECK(counts.avg_dwell_ms == 2000);
}

TEST_CASE_METHOD(Fixture, "a session is renewed by each report and counts again once its window has passed",
                 "[track]") {
  const auto session = keys().session("a", "v");
  track(report("a", "v", 1000));
  command("EXPIRE", session, 100);
  track(report("a", "v", 500));
  CHECK(ttl(session) > 1700);
  command("DEL", session);
  CHECK(track(report("a", "v", 500)).pv == 2);
}

TEST_CASE_METHOD(Fixture, "a window of zero counts every report, as the seed's code does", "[track]") {
  settings.engagement.session_window = seconds{0};
  open();
  track(report("a", "v", 1000));
  const auto counts = track(report("a", "v", 2000));
  CHECK(counts.pv == 2);
  CHECK(counts.uv == 1);
  CHECK(counts.avg_dwell_ms == 1500);
  CHECK_FALSE(exists(keys().session("a", "v")));
}

TEST_CASE_METHOD(Fixture, "a dwell that is no integer within the cap leaves nothing behind", "[track]") {
  for (const char* dwell :
       {"-1", "180001", "1.5", "nan", "inf", "-inf", "abc", "", "1e400", "1e3", " 5", "0x10", "+5"}) {
    const auto reply = raw_track(*this, "a", dwell);
    INFO(dwell);
    CHECK(reply.error().starts_with("INVALID"));
  }
  CHECK(raw_track(*this, "a", "1", "", "0").error().starts_with("INVALID"));
  CHECK(all_keys().empty());
}

TEST_CASE_METHOD(Fixture, "an event id counts once and answers the same bytes again", "[track]") {
  auto event = report("a", "v1", 1000);
  event.event = EventId::trusted("e1");
  const auto first = track(event);
  track(report("a", "v2", 9000));
  const auto again = track(event);
  CHECK(again.pv == first.pv);
  CHECK(again.uv == first.uv);
  CHECK(again.avg_dwell_ms == first.avg_dwell_ms);
  CHECK(again.score == first.score);
  CHECK(stats("a").pv == 2);
  CHECK(ttl(keys().track_event("a", "e1")) > 86000);
}

TEST_CASE_METHOD(Fixture, "an event kept for later counts once however often it is replayed", "[track]") {
  REQUIRE(hot->track_later(report("a", "v", 2000)));
  CHECK(all_keys().empty());
  later.replay();
  later.replay();
  CHECK(stats("a").pv == 1);
  CHECK(stats("a").dwell_sum_ms == 2000);
}

TEST_CASE_METHOD(Fixture,
                 "a replayed event counts with its own time, and never with one ahead of Redis' clock",
                 "[track]") {
  const auto before = now() - seconds{7200};
  raw_track(*this, "old", "0", std::to_string(before.time_since_epoch().count()));
  raw_track(*this, "ahead", "0", std::to_string((now() + seconds{99999}).time_since_epoch().count()));
  CHECK(stats("old").first == before);
  CHECK(redis::whole(text(command("GET", keys().first_ts("ahead")))) <= now().time_since_epoch().count());
}

TEST_CASE_METHOD(Fixture, "with items.unknown = reject an unknown item is an error and leaves nothing",
                 "[track]") {
  settings.items_unknown = "reject";
  open();
  const auto refused = wait(hot->track(report("a", "v", 1000)));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kNotFound);
  CHECK(refused.error().reason == "unknown_item");
  const auto view_refused = wait(hot->view(seen("a", "f")));
  REQUIRE_FALSE(view_refused);
  CHECK(view_refused.error().reason == "unknown_item");
  CHECK(all_keys().empty());
  put(item("a", now()));
  CHECK(track(report("a", "v", 1000)).pv == 1);
}

TEST_CASE_METHOD(Fixture, "the client's publish time counts at first sight of an unknown item only",
                 "[track]") {
  auto event = report("a", "v", 0);
  event.published_at = now() - seconds{86400};
  CHECK(track(event).score == Approx(2).epsilon(1e-4));  // 4 points, a half-life old
  event.published_at = now();
  CHECK(track(event).score == Approx(2).epsilon(1e-4));
}

TEST_CASE_METHOD(Fixture, "a publish time that a view brought first counts for reports too", "[track]") {
  auto event = seen("a", "f");
  event.published_at = now() - seconds{86400};
  view(event);
  CHECK(track(report("a", "v", 0)).score == Approx(2).epsilon(1e-4));  // 4 points, a half-life old
}

TEST_CASE_METHOD(Fixture, "a publish time a year ahead does not multiply the score", "[track]") {
  auto event = report("client", "v", 0);
  event.published_at = now() + seconds{365 * 86400};
  CHECK(track(event).score == 4);
  put(item("store", now() + seconds{365 * 86400}));
  CHECK(track(report("store", "v", 0)).score == 4);
  for (const std::string id : {"client", "store"}) {
    const auto terms = stats(id);
    REQUIRE(terms.rank_key);
    CHECK(hot::score_at(*terms.rank_key, terms.now, settings.engagement.half_life) <= 4.0001);
    CHECK(terms.first <= terms.now);
  }
}

TEST_CASE_METHOD(Fixture, "the item store's date wins over the client's and over the first sight",
                 "[track]") {
  track(report("a", "v", 0));
  put(item("a", now() - seconds{172800}));
  auto event = report("a", "w", 0);
  event.published_at = now();
  CHECK(track(event).score == Approx(8.0 / 4).epsilon(1e-4));
  CHECK_FALSE(exists(keys().first_ts("a")));
}

TEST_CASE_METHOD(Fixture, "counters live thirty days from the last view, renewed once a day", "[track]") {
  const auto event = report("a", "v", 0);
  track(event);
  const auto k = keys();
  const std::vector<std::string> counters{k.pv("a"), k.uv_hll("a"), k.dwell_sum("a"), k.dwell_count("a"),
                                          k.first_ts("a")};
  for (const auto& key : counters) CHECK(ttl(key) > 2591990);
  for (const auto& key : counters) command("EXPIRE", key, 1000);
  track(report("a", "w", 0));
  for (const auto& key : counters) CHECK(ttl(key) <= 1000);
  command("HSET", k.item("a"), "renewed", now().time_since_epoch().count() - 90000);
  track(report("a", "x", 0));
  for (const auto& key : counters) CHECK(ttl(key) > 2591990);
  CHECK(ttl(k.item("a")) > 2591990);
  CHECK(wait(items->get(ItemId::trusted("a"))).error().reason == "unknown_item");
}

TEST_CASE_METHOD(Fixture, "a silent article falls below a fresher one without being touched", "[track]") {
  auto old = report("old", "v", 180000);
  old.published_at = now() - seconds{10 * 86400};
  track(old);
  track(report("fresh", "v", 0));
  CHECK(ids(engagement()) == std::vector<std::string>{"fresh", "old"});
}

TEST_CASE_METHOD(Fixture, "a member whose score fell under the floor leaves with the next new one",
                 "[track]") {
  auto dead = report("dead", "v", 0);
  dead.published_at = now() - seconds{60 * 86400};
  track(dead);  // 4 points sixty half-lives ago: 3e-18
  auto living = report("living", "v", 0);
  living.published_at = now() - seconds{20 * 86400};
  track(living);
  CHECK(ids(engagement()) == std::vector<std::string>{"living"});
}

TEST_CASE_METHOD(Fixture, "the rank never holds more than list.max_members", "[track]") {
  settings.list.max_members = 5;
  open();
  for (int i = 0; i < 20; ++i) {
    track(report("a" + std::to_string(i), "v", i * 1000));
    CHECK(command("ZCARD", keys().rank()).integer().value_or(99) <= 5);
    CHECK(command("ZCARD", keys().published()).integer().value_or(99) <= 5);
    view(seen("a" + std::to_string(i), "f"));
    CHECK(command("ZCARD", keys().score()).integer().value_or(99) <= 5);
  }
  CHECK(ids(engagement()) == std::vector<std::string>{"a19", "a18", "a17", "a16", "a15"});
}

TEST_CASE_METHOD(Fixture, "counters that expired while the member stayed start over from the item's date",
                 "[track]") {
  put(item("a", now() - seconds{40 * 86400}));
  track(report("a", "v", 0));
  for (const auto& key : {keys().pv("a"), keys().uv_hll("a"), keys().dwell_sum("a"), keys().dwell_count("a"),
                          keys().session("a", "v")})
    command("DEL", key);
  const auto counts = track(report("a", "w", 0));
  CHECK(counts.pv == 1);
  CHECK(counts.score == Approx(4 * std::exp2(-40)).epsilon(1e-3));
}

TEST_CASE_METHOD(Fixture, "a session that outlives its counters counts as a new view", "[track]") {
  track(report("a", "v", 5000));
  command("DEL", keys().pv("a"), keys().uv_hll("a"), keys().dwell_sum("a"), keys().dwell_count("a"),
          keys().first_ts("a"));
  const auto counts = track(report("a", "v", 6000));
  CHECK(counts.pv == 1);
  CHECK(counts.avg_dwell_ms == 6000);
  CHECK(ttl(keys().dwell_sum("a")) > 0);
}

TEST_CASE_METHOD(Fixture, "weights of zero give no place in the rank and no infinite number", "[track]") {
  settings.engagement.pv_weight = settings.engagement.uv_weight = 0;
  open();
  CHECK(track(report("a", "v", 0)).score == 0);
  CHECK_FALSE(exists(keys().rank()));
}

TEST_CASE_METHOD(Fixture, "an event replayed from before the article's date does not multiply the score",
                 "[track]") {
  track(report("a", "v", 0));
  const auto long_ago = now() - seconds{10 * 86400};
  const std::string reply =
      text(raw_track(*this, "a", "0", std::to_string(long_ago.time_since_epoch().count())));
  CHECK(redis::whole(reply.substr(reply.rfind(' ') + 1)) <= 8);
}

TEST_CASE_METHOD(Fixture,
                 "an item ahead of its date is ranked by its last event, in stats and in a rebuilt rank too",
                 "[track]") {
  const auto half_life = settings.engagement.half_life;
  track(report("a", "v", 0));
  put(item("a", now() + seconds{86400}));
  CHECK(hot::score_at(*stats("a").rank_key, now(), half_life) <= 4.001);
  const auto last_event = now() - seconds{100};
  command("HSET", keys().item("a"), "early", last_event.time_since_epoch().count());
  CHECK(stats("a").first == last_event);
  REQUIRE(wait(hot::rebuild_rank(redis, settings, keys())));
  CHECK(*stats("a").rank_key == Approx(hot::rank_key(4, last_event, half_life)).epsilon(1e-14));
  // Its date has come: the date counts again.
  const auto date = now() - seconds{50};
  command("HSET", keys().item("a"), "published_at", date.time_since_epoch().count());
  track(report("a", "w", 0));
  CHECK(stats("a").first == date);
  auto hidden = item("b", now() + seconds{86400});
  hidden.hidden = true;
  put(hidden);
  CHECK(stats("b").first <= now());
}
