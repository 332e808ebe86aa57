// Articles that nobody vouched for (items.unknown = count): what strangers add to them, what that
// costs, and how they come onto lists.
#include <cmath>
#include <set>

#include "core/hot/added.h"
#include "core/hot/rebuild.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr const char* kId = "ten-bytes!";

struct Strangers : Fixture {
  // Of the network of this number.
  static hot::Standing from(int network) {
    return {.network = std::string(1, static_cast<char>('a' + network)) + "-network-and-more"};
  }
  static std::string number(int n) { return std::to_string(n); }
  hot::TrackCounts read(int network, const std::string& id = kId, std::int64_t dwell_ms = 1000) {
    return track(reported(network, id, dwell_ms));
  }
  static hot::TrackEvent reported(int network, const std::string& id = kId, std::int64_t dwell_ms = 1000) {
    hot::TrackEvent event = track_event(id, "v" + number(network), dwell_ms, "s" + number(network));
    event.standing = from(network);
    return event;
  }
  static hot::ViewEvent viewed(int network, const std::string& id = kId) {
    hot::ViewEvent event = view_event(id, "f" + number(network));
    event.standing = from(network);
    return event;
  }
  std::int64_t bytes(const std::string& key) {
    return command("MEMORY", "USAGE", key, "SAMPLES", 0).integer().value_or(0);
  }
};

}  // namespace

TEST_CASE_METHOD(Strangers,
                 "an article that nobody vouched for counts each network once, and the tenth lists it",
                 "[unlisted]") {
  for (int network = 0; network < 9; ++network) {
    for (int again = 0; again < 3; ++again) {
      const hot::TrackCounts counts = read(network, kId, 1000 + 500 * again);
      CHECK(counts.pv == network + 1);
      CHECK(counts.uv == network + 1);
      CHECK(counts.avg_dwell_ms == 1000);
      CHECK_FALSE(counts.effect.listed);
      CHECK(counts.effect.began == (network == 0 && again == 0));
      CHECK_FALSE(counts.effect.new_visitor);
    }
  }
  CHECK(ids(engagement_query()).empty());
  CHECK_FALSE(stats(kId).listed);
  CHECK(stats(kId).pv == 9);
  REQUIRE(run_sync(hot::rebuild_rank(redis, settings, keys())));
  CHECK(ids(engagement_query()).empty());

  CHECK(read(9).effect.listed);
  CHECK(ids(engagement_query()) == std::vector<std::string>{kId});
  CHECK(stats(kId).listed);
  CHECK(ttl(keys().article(kId)) > 2591990);
  CHECK(command("ZCARD", keys().partition(0).unverified()).integer() == 0);
  // From now on as any other: by visitor and session.
  for (int reader = 0; reader < 3; ++reader) {
    for (int again = 0; again < 2; ++again) {
      hot::TrackEvent event = track_event(kId, "new" + number(reader), 1000);
      event.standing = from(0);
      CHECK(track(event).uv == 11 + reader);
    }
  }
  CHECK(stats(kId).pv == 13);
  CHECK(field(kId, "nets").empty());
  CHECK(ttl(keys().uv_hll(kId)) > 2591990);
}

TEST_CASE_METHOD(Strangers,
                 "it costs at most 600 bytes, in one hash that lives an hour from the last new network",
                 "[unlisted]") {
  for (int network = 0; network < 9; ++network) {
    command("EXPIRE", keys().article(kId), 100);
    read(network);
    view(viewed(network));
    CHECK(ttl(keys().article(kId)) > 3590);
    command("EXPIRE", keys().article(kId), 100);
    read(network);
    view(viewed(network));
    CHECK(ttl(keys().article(kId)) <= 100);
  }
  const auto keys_now = all_keys();
  CHECK(std::set<std::string>(keys_now.begin(), keys_now.end()) ==
        std::set<std::string>{keys().article(kId), keys().partition(0).unverified()});
  const std::int64_t one = bytes(keys().article(kId));
  // What each more adds to the list of them.
  for (int i = 0; i < 1000; ++i) read(0, "made-up-" + number(10 + i % 90) + number(i));
  const std::int64_t of_list = bytes(keys().partition(0).unverified()) / 1001;
  INFO(one << " + " << of_list);
  CHECK(one + of_list <= 600);
  CHECK(one > 100);
}

TEST_CASE_METHOD(Strangers, "a PUT vouches for it, and what was counted stays", "[unlisted]") {
  for (int network = 0; network < 4; ++network) read(network);
  put(item(kId, now()));
  CHECK(ids(engagement_query()) == std::vector<std::string>{kId});
  CHECK(stats(kId).pv == 4);
  CHECK(stats(kId).listed);
  CHECK(ttl(keys().article(kId)) == -1);
  const hot::TrackCounts next = read(7);
  CHECK(next.pv == 5);
  CHECK(next.uv == 5);
  CHECK(next.effect.listed);
  CHECK(next.effect.new_visitor);
  CHECK(ttl(keys().article(kId)) == -1);
  CHECK(ttl(keys().uv_hll(kId)) > 0);
  remove(kId);
  read(8);
  CHECK(ids(engagement_query()).empty());
  CHECK(ttl(keys().article(kId)) > 0);
}

TEST_CASE_METHOD(Strangers, "a report of the site's own vouches for it, and a view likewise", "[unlisted]") {
  for (const char* id : {"tracked", "viewed"}) {
    for (int network = 0; network < 3; ++network) read(network, id);
  }
  CHECK(track(track_event("tracked", "v", 0)).uv == 4);
  view(view_event("viewed", "f"));
  CHECK(stats("viewed").listed);
  for (const char* id : {"tracked", "viewed"}) CHECK(ttl(keys().article(id)) > 2591990);
  CHECK(read(5, "viewed").uv == 4);
  CHECK(ids(engagement_query()).size() == 2);
  // And one that nobody else has read before.
  track(track_event("first", "v", 0));
  CHECK(read(5, "first").effect.listed);
}

TEST_CASE_METHOD(Strangers, "views are counted by network until the tenth, too", "[unlisted]") {
  for (int network = 0; network < 9; ++network) {
    const hot::ViewOutcome outcome = view(viewed(network));
    CHECK_FALSE(outcome.effect.listed);
    CHECK(outcome.score_inc == Approx(3 / std::pow(2, 1.5)));
    CHECK(view(viewed(network)).score_inc == 0);
  }
  CHECK(stats(kId).views_pv == 9);
  CHECK(ids(accumulate_query()).empty());
  CHECK(view(viewed(9)).effect.listed);
  CHECK(ids(accumulate_query()) == std::vector<std::string>{kId});
  CHECK(score(keys().partition(0).rank(hot::kByViews), kId) == Approx(30 / std::pow(2, 1.5)));
  CHECK(stats(kId).views_total == 30);
  // Of these networks none has reported reading it.
  CHECK(track(track_event(kId, "v", 0)).uv == 1);
}

TEST_CASE_METHOD(Strangers, "who may begin no other may read those that are there", "[unlisted]") {
  read(0, "there");
  hot::TrackEvent event = reported(1, "another");
  event.standing.may_begin = false;
  const auto refused = run_sync(hot->track(event));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kRateLimited);
  CHECK(refused.error().reason == "too_many_unknown");
  CHECK_FALSE(exists(keys().article("another")));
  event.item = ItemId::trusted("there");
  CHECK(track(event).pv == 2);
  put(item("known", now()));
  event.item = ItemId::trusted("known");
  CHECK(track(event).pv == 1);
}

TEST_CASE_METHOD(Strangers, "at most items.unknown_max exist, and those that are over make room",
                 "[unlisted]") {
  settings.items_unknown_max = 5;
  open();
  for (int i = 0; i < 5; ++i) read(0, "made-up-" + number(i));
  const auto refused = run_sync(hot->track(reported(1, "sixth")));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == "too_many_unknown");
  const auto viewed_refused = run_sync(hot->view(viewed(1, "sixth")));
  REQUIRE_FALSE(viewed_refused);
  CHECK(viewed_refused.error().reason == "too_many_unknown");
  CHECK(read(1, "made-up-0").pv == 2);
  command("ZADD", keys().partition(0).unverified(), "XX", unix_s(now()) - 1, "made-up-3");
  CHECK(read(0, "sixth").effect.began);
}

TEST_CASE_METHOD(Strangers, "a repeated event answers as before", "[unlisted]") {
  hot::TrackEvent event = reported(0);
  event.event = EventId::trusted("e");
  hot::ViewEvent seen_once = viewed(1);
  seen_once.event = EventId::trusted("e");
  for (int i = 0; i < 3; ++i) {
    CHECK(track(event).pv == 1);
    CHECK(view(seen_once).score_inc > 1);
  }
  read(2);
  CHECK(track(event).pv == 1);
  CHECK_FALSE(track(event).effect.listed);
  CHECK(stats(kId).pv == 2);
  CHECK(stats(kId).views_pv == 1);
}

TEST_CASE_METHOD(Strangers, "what waited in a spool counts by network, too", "[unlisted]") {
  for (int i = 0; i < 3; ++i) REQUIRE(hot->track_later(reported(i % 2)));
  REQUIRE(hot->view_later(viewed(2)));
  write_queue.replay();
  CHECK(stats(kId).pv == 2);
  CHECK(stats(kId).views_pv == 1);
  CHECK_FALSE(stats(kId).listed);
}

TEST_CASE_METHOD(Strangers, "with items.unknown = list a stranger's word is enough", "[unlisted]") {
  settings.items_unknown = "list";
  open();
  CHECK(read(0).effect.listed);
  CHECK(read(0).pv == 1);
  CHECK(ids(engagement_query()) == std::vector<std::string>{kId});
  CHECK(exists(keys().uv_hll(kId)));
}

TEST_CASE_METHOD(Strangers, "who is beyond his network's visitors counts in all but these", "[unlisted]") {
  put(item(kId, now()));
  for (int reader = 0; reader < 4; ++reader) {
    hot::TrackEvent event = track_event(kId, "v" + number(reader), 1000);
    event.standing = from(0);
    event.standing.in_uv = reader < 2;
    event.counted_as = event.visitor;
    const hot::TrackCounts counts = track(event);
    CHECK(counts.pv == reader + 1);
    CHECK(counts.uv == std::min(reader + 1, 2));
    CHECK(counts.effect.new_visitor == (reader < 2));
    hot::ViewEvent view_event = view_event(kId, "f" + number(reader));
    view_event.standing = event.standing;
    CHECK(view(view_event).first_today == (reader < 2));
  }
  CHECK(stats(kId).views_pv == 4);
  CHECK(stats(kId).uv_today == 2);
  const auto from_network = hot::read_came_from(command("HGETALL", keys().contributions("v3")));
  CHECK(from_network.network == from(0).network);
  CHECK(from_network.beyond == 1);
  CHECK(hot::read_came_from(command("HGETALL", keys().contributions("v0"))).beyond == 0);
}
