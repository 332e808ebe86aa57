// Unverified articles (items.unknown = count): what anonymous clients can add to them, how much
// memory they use, and how they get listed.
#include <cmath>
#include <set>

#include "core/hot/contributions.h"
#include "core/hot/rebuild.h"
#include "tests/support/error_of.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr const char* kId = "ten-bytes!";

struct UnlistedFixture : Fixture {
  // An admission from network number `network`.
  static hot::EventAdmission admission_from(int network) {
    return {.network = std::string(1, static_cast<char>('a' + network)) + "-network-and-more"};
  }
  static std::string to_string(int n) { return std::to_string(n); }
  hot::TrackResult track_from(int network, const std::string& id = kId, std::int64_t dwell_ms = 1000) {
    return track(report_from(network, id, dwell_ms));
  }
  static hot::TrackEvent report_from(int network, const std::string& id = kId, std::int64_t dwell_ms = 1000) {
    hot::TrackEvent event = track_event(id, "v" + to_string(network), dwell_ms, "s" + to_string(network));
    event.admission = admission_from(network);
    return event;
  }
  static hot::ViewEvent view_from(int network, const std::string& id = kId) {
    hot::ViewEvent event = view_event(id, "f" + to_string(network));
    event.admission = admission_from(network);
    return event;
  }
  std::int64_t memory_usage(const std::string& key) {
    return command("MEMORY", "USAGE", key, "SAMPLES", 0).integer().value_or(0);
  }
};

}  // namespace

TEST_CASE_METHOD(UnlistedFixture, "an unverified article counts each network once, and the tenth lists it",
                 "[unlisted]") {
  for (int network = 0; network < 9; ++network) {
    for (int again = 0; again < 3; ++again) {
      const hot::TrackResult counts = track_from(network, kId, 1000 + 500 * again);
      CHECK(counts.pv == network + 1);
      CHECK(counts.uv == network + 1);
      CHECK(counts.avg_dwell_ms == 1000);
      CHECK_FALSE(counts.outcome.listed);
      CHECK(counts.outcome.created == (network == 0 && again == 0));
      CHECK_FALSE(counts.outcome.new_visitor);
    }
  }
  CHECK(ids(engagement_query()).empty());
  CHECK_FALSE(stats(kId).listed);
  CHECK(stats(kId).pv == 9);
  REQUIRE(run_sync(hot::rebuild_ranks(redis, settings, keys())));
  CHECK(ids(engagement_query()).empty());

  CHECK(track_from(9).outcome.listed);
  CHECK(ids(engagement_query()) == std::vector<std::string>{kId});
  CHECK(stats(kId).listed);
  CHECK(has_new_ttl(keys().article(kId), 30 * 86400));
  CHECK(command("ZCARD", keys().partition(0).unverified()).integer() == 0);
  // From now on it counts by visitor and session, like any other.
  for (int reader = 0; reader < 3; ++reader) {
    for (int again = 0; again < 2; ++again) {
      hot::TrackEvent event = track_event(kId, "new" + to_string(reader), 1000);
      event.admission = admission_from(0);
      CHECK(track(event).uv == 11 + reader);
    }
  }
  CHECK(stats(kId).pv == 13);
  CHECK(field(kId, "nets").empty());
  CHECK(has_new_ttl(keys().uv_hll(kId), 30 * 86400));
}

TEST_CASE_METHOD(UnlistedFixture,
                 "an unverified article uses at most 600 bytes, in one hash that expires an hour after the "
                 "last new network",
                 "[unlisted]") {
  for (int network = 0; network < 9; ++network) {
    command("EXPIRE", keys().article(kId), 100);
    track_from(network);
    view(view_from(network));
    CHECK(has_new_ttl(keys().article(kId), 3600));
    command("EXPIRE", keys().article(kId), 100);
    track_from(network);
    view(view_from(network));
    CHECK(ttl(keys().article(kId)) <= 100);
  }
  const auto keys_now = all_keys();
  CHECK(std::set<std::string>(keys_now.begin(), keys_now.end()) ==
        std::set<std::string>{keys().article(kId), keys().partition(0).unverified()});
  const std::int64_t one = memory_usage(keys().article(kId));
  // Memory that each further article adds to the index.
  for (int i = 0; i < 1000; ++i) track_from(0, "made-up-" + to_string(10 + i % 90) + to_string(i));
  const std::int64_t of_list = memory_usage(keys().partition(0).unverified()) / 1001;
  INFO(one << " + " << of_list);
  CHECK(one + of_list <= 600);
  CHECK(one > 100);
}

TEST_CASE_METHOD(UnlistedFixture, "a PUT verifies the article, and its counters stay", "[unlisted]") {
  for (int network = 0; network < 4; ++network) track_from(network);
  put(item(kId, now()));
  CHECK(ids(engagement_query()) == std::vector<std::string>{kId});
  CHECK(stats(kId).pv == 4);
  CHECK(stats(kId).listed);
  CHECK(ttl(keys().article(kId)) == -1);
  const hot::TrackResult next = track_from(7);
  CHECK(next.pv == 5);
  CHECK(next.uv == 5);
  CHECK(next.outcome.listed);
  CHECK(next.outcome.new_visitor);
  CHECK(ttl(keys().article(kId)) == -1);
  CHECK(ttl(keys().uv_hll(kId)) > 0);
  remove(kId);
  track_from(8);
  CHECK(ids(engagement_query()).empty());
  CHECK(ttl(keys().article(kId)) > 0);
}

TEST_CASE_METHOD(UnlistedFixture, "a report or a view through the internal server verifies the article",
                 "[unlisted]") {
  for (const char* id : {"tracked", "viewed"}) {
    for (int network = 0; network < 3; ++network) track_from(network, id);
  }
  CHECK(track(track_event("tracked", "v", 0)).uv == 4);
  view(view_event("viewed", "f"));
  CHECK(stats("viewed").listed);
  for (const char* id : {"tracked", "viewed"}) CHECK(has_new_ttl(keys().article(id), 30 * 86400));
  CHECK(track_from(5, "viewed").uv == 4);
  CHECK(ids(engagement_query()).size() == 2);
  // Also one without earlier readers.
  track(track_event("first", "v", 0));
  CHECK(track_from(5, "first").outcome.listed);
}

TEST_CASE_METHOD(UnlistedFixture, "views are counted by network until the tenth, too", "[unlisted]") {
  for (int network = 0; network < 9; ++network) {
    const hot::ViewResult outcome = view(view_from(network));
    CHECK_FALSE(outcome.outcome.listed);
    CHECK(outcome.score_inc == Approx(3 / std::pow(2, 1.5)));
    CHECK(view(view_from(network)).score_inc == 0);
  }
  CHECK(stats(kId).views_pv == 9);
  CHECK(ids(accumulate_query()).empty());
  CHECK(view(view_from(9)).outcome.listed);
  CHECK(ids(accumulate_query()) == std::vector<std::string>{kId});
  CHECK(score(keys().partition(0).rank(hot::kViewsModel), kId) == Approx(30 / std::pow(2, 1.5)));
  CHECK(stats(kId).views_total == 30);
  // None of these networks has sent a report.
  CHECK(track(track_event(kId, "v", 0)).uv == 1);
}

TEST_CASE_METHOD(UnlistedFixture, "a network that may not create articles may still read existing ones",
                 "[unlisted]") {
  track_from(0, "there");
  hot::TrackEvent event = report_from(1, "another");
  event.admission.may_create = false;
  const auto refused = run_sync(hot->track(event));
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).code == ErrorCode::kRateLimited);
  CHECK(error_of(refused).reason == "unverified_quota");
  CHECK_FALSE(exists(keys().article("another")));
  event.item = ItemId::trusted("there");
  CHECK(track(event).pv == 2);
  put(item("known", now()));
  event.item = ItemId::trusted("known");
  CHECK(track(event).pv == 1);
}

TEST_CASE_METHOD(UnlistedFixture, "at most items.unknown_max exist, and expired ones free their quota",
                 "[unlisted]") {
  settings.items_unknown_max = 5;
  open();
  for (int i = 0; i < 5; ++i) track_from(0, "made-up-" + to_string(i));
  const auto refused = run_sync(hot->track(report_from(1, "sixth")));
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "unverified_quota");
  const auto viewed_refused = run_sync(hot->view(view_from(1, "sixth")));
  REQUIRE_FALSE(viewed_refused);
  CHECK(error_of(viewed_refused).reason == "unverified_quota");
  CHECK(track_from(1, "made-up-0").pv == 2);
  command("ZADD", keys().partition(0).unverified(), "XX", unix_s(now()) - 1, "made-up-3");
  CHECK(track_from(0, "sixth").outcome.created);
}

TEST_CASE_METHOD(UnlistedFixture, "a repeated event returns the first reply", "[unlisted]") {
  hot::TrackEvent event = report_from(0);
  event.event_id = EventId::trusted("e");
  hot::ViewEvent seen_once = view_from(1);
  seen_once.event_id = EventId::trusted("e");
  for (int i = 0; i < 3; ++i) {
    CHECK(track(event).pv == 1);
    CHECK(view(seen_once).score_inc > 1);
  }
  track_from(2);
  CHECK(track(event).pv == 1);
  CHECK_FALSE(track(event).outcome.listed);
  CHECK(stats(kId).pv == 2);
  CHECK(stats(kId).views_pv == 1);
}

TEST_CASE_METHOD(UnlistedFixture, "spooled events count by network, too", "[unlisted]") {
  for (int i = 0; i < 3; ++i) REQUIRE(hot->spool_track(report_from(i % 2)));
  REQUIRE(hot->spool_view(view_from(2)));
  write_queue.replay();
  CHECK(stats(kId).pv == 2);
  CHECK(stats(kId).views_pv == 1);
  CHECK_FALSE(stats(kId).listed);
}

TEST_CASE_METHOD(UnlistedFixture, "with items.unknown = list an anonymous event lists the article",
                 "[unlisted]") {
  settings.items_unknown = "list";
  open();
  CHECK(track_from(0).outcome.listed);
  CHECK(track_from(0).pv == 1);
  CHECK(ids(engagement_query()) == std::vector<std::string>{kId});
  CHECK(exists(keys().uv_hll(kId)));
}

TEST_CASE_METHOD(UnlistedFixture,
                 "an event beyond limits.uv_per_network counts in everything except visitors", "[unlisted]") {
  put(item(kId, now()));
  for (int reader = 0; reader < 4; ++reader) {
    hot::TrackEvent event = track_event(kId, "v" + to_string(reader), 1000);
    event.admission = admission_from(0);
    event.admission.counts_as_visitor = reader < 2;
    event.attributed_to = event.visitor;
    const hot::TrackResult counts = track(event);
    CHECK(counts.pv == reader + 1);
    CHECK(counts.uv == std::min(reader + 1, 2));
    CHECK(counts.outcome.new_visitor == (reader < 2));
    hot::ViewEvent viewed = view_event(kId, "f" + to_string(reader));
    viewed.admission = event.admission;
    CHECK(view(viewed).first_today == (reader < 2));
  }
  CHECK(stats(kId).views_pv == 4);
  CHECK(stats(kId).uv_today == 2);
  const auto from_network = hot::parse_visitor_origin(command("HGETALL", keys().contributions("v3")));
  CHECK(from_network.network == admission_from(0).network);
  CHECK(from_network.uncounted_events == 1);
  CHECK(hot::parse_visitor_origin(command("HGETALL", keys().contributions("v0"))).uncounted_events == 0);
}
