// Engagement counters in Redis: what a report changes, and what it must never change.
#include <cmath>

#include "core/hot/engagement.h"
#include "tests/support/error_of.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

// Calls track.lua with arbitrary text in place of numbers, like a broken client of the script.
redis::Reply raw_track(Fixture& f, const std::string& id, const std::string& dwell,
                       const std::string& at = "", const std::string& ttl = "2592000") {
  const auto keys = f.keys();
  redis::Pipeline one;
  one.script(scripts::kTrack).key(keys.article(id)).key(keys.uv_hll(id)).key(keys.session(id, "s"));
  one.arg("visitor").arg(dwell).arg("").arg(at).arg(1800).arg(ttl).arg(0);
  for (int i = 8; i <= 16; ++i) one.arg("");  // no views
  one.arg(1);
  auto replies = f.redis.call(one);
  REQUIRE(replies);
  return std::move(replies->front());
}

}  // namespace

TEST_CASE_METHOD(Fixture, "the first report counts one view, one visitor and its dwell", "[track]") {
  const auto counts = track(track_event("a", "v1", 5000));
  CHECK(counts.pv == 1);
  CHECK(counts.uv == 1);
  CHECK(counts.avg_dwell_ms == 5000);
  CHECK(counts.score == Approx(1 + 3 + 10).epsilon(1e-4));
}

TEST_CASE_METHOD(Fixture, "the script returns the article's counters and what the report added", "[track]") {
  const std::string reply = text(raw_track(*this, "a", "3333"));
  constexpr std::size_t kTrendBytes = 40;
  REQUIRE(reply.size() > kTrendBytes);
  CHECK(reply.substr(reply.size() - kTrendBytes) == field("a", "trend"));
  const std::string words = reply.substr(0, reply.size() - kTrendBytes);
  const auto parts = redis::split_words(words);
  REQUIRE(parts.size() == 16);
  const std::string now = std::to_string(unix_s(this->now()));
  CHECK(reply.starts_with("1 1 3333 " + now.substr(0, 8)));
  CHECK(parts[3] == parts[4]);
  CHECK(parts[5] == "0");
  CHECK(parts[6] == field("a", "v"));
  CHECK(parts[6].starts_with(now.substr(0, 8)));  // Redis' time in microseconds
  CHECK(words.ends_with(" 1 1 3333 0 0 0 0 0 "));
  CHECK(text(raw_track(*this, "a", "4000")).ends_with(" 0 0 667 0 0 0 0 0 "));
  CHECK(text(raw_track(*this, "a", "4000")).ends_with(" 0 0 0 0 0 0 0 0 "));
}

TEST_CASE_METHOD(Fixture, "every write increases the article's version, even if the clock went back",
                 "[track]") {
  std::int64_t last = 0;
  const auto grows = [&] {
    const std::int64_t v = redis::parse_or_zero<std::int64_t>(field("a", "v"));
    CHECK(v > last);
    last = v;
  };
  track(track_event("a", "v1", 1000));
  grows();
  put(item("a", now()));
  grows();
  view(view_event("a", "f"));
  grows();
  const std::int64_t ahead = 9'000'000'000'000'000;
  command("HSET", keys().article("a"), "v", ahead);
  last = ahead;
  track(track_event("a", "v2", 1000));
  grows();
  view(view_event("a", "g"));
  grows();
  put(item("a", now() - seconds{5}));
  grows();
  remove("a");
  grows();
}

TEST_CASE_METHOD(Fixture, "a heartbeat counts no view and never lowers the session's dwell time", "[track]") {
  track(track_event("a", "v", 10000));
  auto counts = track(track_event("a", "v", 30000));
  CHECK(counts.pv == 1);
  CHECK(counts.avg_dwell_ms == 30000);
  counts = track(track_event("a", "v", 20000));
  CHECK(counts.pv == 1);
  CHECK(counts.avg_dwell_ms == 30000);
  counts = track(track_event("a", "v", 31000));
  CHECK(counts.avg_dwell_ms == 31000);
}

TEST_CASE_METHOD(Fixture, "two sessions of one visitor are two views and one visitor", "[track]") {
  track(track_event("a", "v", 1000, "s1"));
  const auto counts = track(track_event("a", "v", 3000, "s2"));
  CHECK(counts.pv == 2);
  CHECK(counts.uv == 1);
  CHECK(counts.avg_dwell_ms == 2000);
}

TEST_CASE_METHOD(Fixture, "each report renews its session, which counts again after the window", "[track]") {
  const auto session = keys().session("a", "v");
  track(track_event("a", "v", 1000));
  command("EXPIRE", session, 100);
  track(track_event("a", "v", 500));
  CHECK(has_new_ttl(session, 1800));
  command("DEL", session);
  CHECK(track(track_event("a", "v", 500)).pv == 2);
}

TEST_CASE_METHOD(Fixture, "a window of zero counts every report", "[track]") {
  settings.engagement.session_window = seconds{0};
  open();
  track(track_event("a", "v", 1000));
  const auto counts = track(track_event("a", "v", 2000));
  CHECK(counts.pv == 2);
  CHECK(counts.uv == 1);
  CHECK(counts.avg_dwell_ms == 1500);
  CHECK_FALSE(exists(keys().session("a", "v")));
}

TEST_CASE_METHOD(Fixture, "an argument that is not a number leaves no keys behind", "[track]") {
  for (const char* const dwell : {"", "abc", "1,5"}) CHECK(raw_track(*this, "a", dwell).is_error());
  CHECK(raw_track(*this, "a", "1", "", "soon").is_error());
  CHECK(all_keys().empty());
}

TEST_CASE_METHOD(Fixture, "a spooled dwell time above the cap counts as the cap", "[track]") {
  CHECK(track(track_event("a", "v", 180'001)).avg_dwell_ms == 180'000);
}

TEST_CASE_METHOD(Fixture, "an event id counts once and returns the first reply again", "[track]") {
  auto event = track_event("a", "v1", 1000);
  event.event_id = EventId::trusted("e1");
  const auto first = track(event);
  track(track_event("a", "v2", 9000));
  const auto again = track(event);
  CHECK(again.pv == first.pv);
  CHECK(again.uv == first.uv);
  CHECK(again.avg_dwell_ms == first.avg_dwell_ms);
  CHECK(again.score == first.score);
  CHECK(stats("a").pv == 2);
  CHECK(has_new_ttl(keys().track_event("a", "e1"), 86400));
}

TEST_CASE_METHOD(Fixture, "a spooled event counts once however often it is replayed", "[track]") {
  REQUIRE(hot->spool_track(track_event("a", "v", 2000)));
  CHECK(all_keys().empty());
  write_queue.replay();
  write_queue.replay();
  CHECK(stats("a").pv == 1);
  CHECK(stats("a").dwell_sum_ms == 2000);
}

TEST_CASE_METHOD(Fixture, "a replayed event counts with its own time, but never with a time in the future",
                 "[track]") {
  const auto before = now() - seconds{7200};
  raw_track(*this, "old", "0", std::to_string(before.time_since_epoch().count()));
  raw_track(*this, "ahead", "0", std::to_string((now() + seconds{99999}).time_since_epoch().count()));
  CHECK(stats("old").decay_start == before);
  CHECK(redis::to_int(field("ahead", "first")) <= now().time_since_epoch().count());
}

TEST_CASE_METHOD(
    Fixture, "with items.unknown = reject an event of an unknown item is an error and leaves no keys behind",
    "[track]") {
  settings.items_unknown = "reject";
  open();
  const auto refused = run_sync(hot->track(track_event("a", "v", 1000)));
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).code == ErrorCode::kNotFound);
  CHECK(error_of(refused).reason == "unknown_item");
  const auto view_refused = run_sync(hot->view(view_event("a", "f")));
  REQUIRE_FALSE(view_refused);
  CHECK(error_of(view_refused).reason == "unknown_item");
  CHECK(all_keys().empty());
  put(item("a", now()));
  CHECK(track(track_event("a", "v", 1000)).pv == 1);
}

TEST_CASE_METHOD(Fixture, "the client's publish time is used only for the first event of an unknown item",
                 "[track]") {
  auto event = track_event("a", "v", 0);
  event.published_at = now() - seconds{86400};
  CHECK(track(event).score == Approx(2).epsilon(1e-4));  // 4 points, one half-life old
  event.published_at = now();
  CHECK(track(event).score == Approx(2).epsilon(1e-4));
}

TEST_CASE_METHOD(Fixture, "a publish time first given by a view also counts for reports", "[track]") {
  auto event = view_event("a", "f");
  event.published_at = now() - seconds{86400};
  view(event);
  CHECK(track(track_event("a", "v", 0)).score == Approx(2).epsilon(1e-4));  // 4 points, one half-life old
}

TEST_CASE_METHOD(Fixture, "a publish time a year in the future does not raise the score above its base",
                 "[track]") {
  auto event = track_event("client", "v", 0);
  event.published_at = now() + seconds{365 * 86400};
  CHECK(track(event).score == 4);
  put(item("store", now() + seconds{365 * 86400}));
  CHECK(track(track_event("store", "v", 0)).score == 4);
  for (const std::string id : {"client", "store"}) {
    const auto terms = stats(id);
    REQUIRE(terms.position(hot::kEngagementModel).score);
    CHECK(hot::score_at(*terms.position(hot::kEngagementModel).score, terms.now,
                        settings.engagement.half_life) <= 4.0001);
    CHECK(terms.decay_start <= terms.now);
  }
}

TEST_CASE_METHOD(Fixture, "the item store's date takes precedence over the client's and over the first event",
                 "[track]") {
  track(track_event("a", "v", 0));
  put(item("a", now() - seconds{172800}));
  auto event = track_event("a", "w", 0);
  event.published_at = now();
  CHECK(track(event).score == Approx(8.0 / 4).epsilon(1e-4));
  CHECK(field("a", "first").empty());
}

TEST_CASE_METHOD(Fixture, "counters expire thirty days after the last view and are renewed once a day",
                 "[track]") {
  track(track_event("a", "v", 0));
  const std::vector<std::string> counters{keys().article("a"), keys().uv_hll("a")};
  for (const auto& key : counters) CHECK(has_new_ttl(key, 30 * 86400));
  for (const auto& key : counters) command("EXPIRE", key, 1000);
  track(track_event("a", "w", 0));
  for (const auto& key : counters) CHECK(ttl(key) <= 1000);
  command("HSET", keys().article("a"), "renewed", now().time_since_epoch().count() - 90000);
  track(track_event("a", "x", 0));
  for (const auto& key : counters) CHECK(has_new_ttl(key, 30 * 86400));
  CHECK(error_of(run_sync(items->get(ItemId::trusted("a")))).reason == "unknown_item");
}

TEST_CASE_METHOD(Fixture, "a PUT article keeps its date when its counters have expired", "[track]") {
  const auto date = now() - seconds{3 * 86400};
  put(item("a", date));
  for (const char* visitor : {"v1", "v2", "v3"}) track(track_event("a", visitor, 1000));
  CHECK(ttl(keys().article("a")) == -1);
  CHECK(has_new_ttl(keys().uv_hll("a"), 30 * 86400));
  command("HSET", keys().article("a"), "renewed", unix_s(now()) - 30 * 86400, "uv_correction", 1);
  CHECK(stats("a").pv == 0);
  CHECK(stats("a").uv == 0);
  const auto counts = track(track_event("a", "v4", 500));
  CHECK(counts.pv == 1);
  CHECK(counts.uv == 1);
  CHECK(counts.avg_dwell_ms == 500);
  CHECK(stats("a").decay_start == date);
  CHECK(ttl(keys().article("a")) == -1);
}

TEST_CASE_METHOD(Fixture, "the hash of an unknown article lives as long as any of its counters", "[track]") {
  settings.views.counter_ttl = seconds{90 * 86400};
  open();
  view(view_event("a", "f"));
  track(track_event("a", "v", 0));
  CHECK(has_new_ttl(keys().article("a"), 90 * 86400));
  put(item("a", now()));
  CHECK(ttl(keys().article("a")) == -1);
  remove("a");
  CHECK(ttl(keys().article("a")) > 0);
}

TEST_CASE_METHOD(Fixture, "an article without new events falls below a fresher one", "[track]") {
  auto old = track_event("old", "v", 180000);
  old.published_at = now() - seconds{10 * 86400};
  track(old);
  track(track_event("fresh", "v", 0));
  CHECK(ids(engagement_query()) == std::vector<std::string>{"fresh", "old"});
}

TEST_CASE_METHOD(Fixture, "a member whose score fell below the minimum is removed with the next new member",
                 "[track]") {
  auto dead = track_event("dead", "v", 0);
  dead.published_at = now() - seconds{60 * 86400};
  track(dead);  // 4 points sixty half-lives ago: 3e-18
  auto living = track_event("living", "v", 0);
  living.published_at = now() - seconds{20 * 86400};
  track(living);
  CHECK(ids(engagement_query()) == std::vector<std::string>{"living"});
}

TEST_CASE_METHOD(Fixture, "the rank never exceeds list.max_members", "[track]") {
  settings.list.max_members = 5;
  open();
  for (int i = 0; i < 20; ++i) {
    track(track_event("a" + std::to_string(i), "v", i * 1000));
    CHECK(command("ZCARD", keys().partition(0).rank(hot::kEngagementModel)).integer().value_or(99) <= 5);
    CHECK(command("ZCARD", keys().partition(0).published()).integer().value_or(99) <= 5);
    view(view_event("a" + std::to_string(i), "f"));
    CHECK(command("ZCARD", keys().partition(0).rank(hot::kViewsModel)).integer().value_or(99) <= 5);
  }
  CHECK(ids(engagement_query()) == std::vector<std::string>{"a19", "a18", "a17", "a16", "a15"});
}

TEST_CASE_METHOD(Fixture,
                 "counters that expired while the article was ranked start over from the item's date",
                 "[track]") {
  put(item("a", now() - seconds{40 * 86400}));
  track(track_event("a", "v", 0));
  command("HSET", keys().article("a"), "renewed", unix_s(now()) - 31 * 86400);
  command("DEL", keys().session("a", "v"));
  const auto counts = track(track_event("a", "w", 0));
  CHECK(counts.pv == 1);
  CHECK(counts.score == Approx(4 * std::exp2(-40)).epsilon(1e-3));
}

TEST_CASE_METHOD(Fixture, "a session that outlives its counters counts as a new view", "[track]") {
  track(track_event("a", "v", 5000));
  command("DEL", keys().article("a"), keys().uv_hll("a"));
  const auto counts = track(track_event("a", "v", 6000));
  CHECK(counts.pv == 1);
  CHECK(counts.avg_dwell_ms == 6000);
  CHECK(ttl(keys().article("a")) > 0);
  CHECK(ttl(keys().uv_hll("a")) > 0);
}

TEST_CASE_METHOD(Fixture, "weights of zero give no rank score and no infinite number", "[track]") {
  settings.engagement.pv_weight = settings.engagement.uv_weight = 0;
  open();
  CHECK(track(track_event("a", "v", 0)).score == 0);
  CHECK_FALSE(exists(keys().partition(0).rank(hot::kEngagementModel)));
}

TEST_CASE_METHOD(Fixture,
                 "an event replayed from before the article's date does not raise the score above its base",
                 "[track]") {
  track(track_event("a", "v", 0));
  const auto before = *rank_score("a");
  auto late = track_event("a", "w", 0);
  late.occurred_at = now() - seconds{10 * 86400};
  const auto counts = track(late);
  CHECK(counts.pv == 2);
  CHECK(counts.score == 8);
  CHECK(*rank_score("a") == Approx(before + 1));
}

TEST_CASE_METHOD(Fixture, "an embargoed item is ranked by its last event, in stats and in a rebuilt rank too",
                 "[track]") {
  const auto half_life = settings.engagement.half_life;
  track(track_event("a", "v", 0));
  put(item("a", now() + seconds{86400}));
  CHECK(hot::score_at(*rank_score("a"), now(), half_life) <= 4.001);
  const auto last_event = now() - seconds{100};
  command("HSET", keys().article("a"), "early", last_event.time_since_epoch().count());
  CHECK(stats("a").decay_start == last_event);
  REQUIRE(run_sync(hot::rebuild_ranks(redis, settings, keys())));
  CHECK(*rank_score("a") == Approx(hot::rank_key(4, last_event, half_life)).epsilon(1e-14));
  // Once the date has passed, it counts again.
  const auto date = now() - seconds{50};
  command("HSET", keys().article("a"), "date", date.time_since_epoch().count());
  track(track_event("a", "w", 0));
  CHECK(stats("a").decay_start == date);
  auto hidden = item("b", now() + seconds{86400});
  hidden.hidden = true;
  put(hidden);
  CHECK(stats("b").decay_start <= now());
}
