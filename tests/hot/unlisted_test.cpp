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
  // An admission from network number `network`, below 62².
  static hot::EventAdmission admission_from(int network) {
    constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const auto n = static_cast<std::size_t>(network);
    const std::string name{kLetters[n / kLetters.size()], kLetters[n % kLetters.size()]};
    return {.network = name + "-network", .wide_network = name + "-wide-network"};
  }
  // As if the first report were `seconds` older.
  void age(int seconds, const std::string& id = kId) {
    command("HINCRBY", keys().article(id), "nets_since", -seconds);
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

TEST_CASE_METHOD(UnlistedFixture,
                 "an unverified article counts each network once, and the 30th lists it if the first "
                 "report is ten minutes old",
                 "[unlisted]") {
  for (int network = 0; network < 29; ++network) {
    for (int again = 0; again < 3; ++again) {
      const hot::TrackResult counts = track_from(network, kId, 1000 + 500 * again);
      CHECK(counts.pv == network + 1);
      CHECK(counts.uv == network + 1);
      CHECK(counts.avg_dwell_ms == 1000);
      CHECK_FALSE(counts.outcome.listed);
      CHECK(counts.outcome.created == (network == 0 && again == 0));
      CHECK(counts.outcome.counted == (again == 0));
    }
  }
  CHECK(ids(engagement_query()).empty());
  CHECK_FALSE(stats(kId).listed);
  CHECK(stats(kId).pv == 29);
  REQUIRE(run_sync(hot::rebuild_ranks(redis, settings, keys())));
  CHECK(ids(engagement_query()).empty());

  age(600);
  CHECK_FALSE(track_from(28).outcome.listed);
  CHECK(track_from(29).outcome.listed);
  CHECK(ids(engagement_query()) == std::vector<std::string>{kId});
  CHECK(stats(kId).listed);
  CHECK(has_new_ttl(keys().article(kId), 30 * 86400));
  CHECK(command("ZCARD", keys().partition(0).unverified()).integer() == 0);
  // From now on it counts by visitor and session, like any other.
  for (int reader = 0; reader < 3; ++reader) {
    for (int again = 0; again < 2; ++again) {
      hot::TrackEvent event = track_event(kId, "new" + to_string(reader), 1000);
      event.admission = admission_from(0);
      CHECK(track(event).uv == 31 + reader);
    }
  }
  CHECK(stats(kId).pv == 33);
  CHECK(field(kId, "nets").empty());
  CHECK(field(kId, "nets_since").empty());
  CHECK(has_new_ttl(keys().uv_hll(kId), 30 * 86400));
}

TEST_CASE_METHOD(UnlistedFixture, "a crowd of networks cannot list an article within ten minutes",
                 "[unlisted]") {
  for (int network = 0; network < 50; ++network) {
    const hot::TrackResult counts = track_from(network);
    CHECK(counts.pv == std::min(network + 1, 30));
    CHECK(counts.outcome.counted == (network < 30));
    CHECK_FALSE(counts.outcome.listed);
  }
  CHECK(ids(engagement_query()).empty());
  CHECK(command("ZCARD", keys().partition(0).unverified()).integer() == 1);
  age(590);
  CHECK_FALSE(track_from(50).outcome.listed);
  age(20);
  // Any report lists it then, of a known network, too, which is not counted again.
  SECTION("from a known network") {
    const hot::TrackResult counts = track_from(7);
    CHECK(counts.outcome.listed);
    CHECK(counts.pv == 30);
  }
  SECTION("from another network") {
    const hot::TrackResult counts = track_from(51);
    CHECK(counts.outcome.listed);
    CHECK(counts.pv == 31);
  }
  SECTION("as a view") {
    CHECK(view(view_from(7)).outcome.listed);
    CHECK(ids(accumulate_query()) == std::vector<std::string>{kId});
    CHECK(track_from(8).outcome.counted);
  }
  CHECK(ids(engagement_query()) == std::vector<std::string>{kId});
  CHECK(command("ZCARD", keys().partition(0).unverified()).integer() == 0);
  CHECK(has_new_ttl(keys().article(kId), 30 * 86400));
}

TEST_CASE_METHOD(UnlistedFixture, "the networks of one /16 list nothing, however many they are",
                 "[unlisted]") {
  settings.items_unknown_networks = 3;
  open();
  hot::TrackEvent event = report_from(0);
  track(event);
  age(600);
  for (int network = 1; network < 100; ++network) {
    event.admission.network = admission_from(network).network;
    CHECK_FALSE(track(event).outcome.listed);
  }
  CHECK(stats(kId).pv == 1);
  track_from(1);
  CHECK(track_from(2).outcome.listed);
}

TEST_CASE_METHOD(UnlistedFixture,
                 "an unverified article uses at most 600 bytes, in one hash that expires an hour after the "
                 "last new network",
                 "[unlisted]") {
  for (int network = 0; network < 30; ++network) {
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
  CHECK(next.outcome.counted);
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

TEST_CASE_METHOD(UnlistedFixture, "views are counted by network until the article is listed, too",
                 "[unlisted]") {
  for (int network = 0; network < 29; ++network) {
    const hot::ViewResult outcome = view(view_from(network));
    CHECK_FALSE(outcome.outcome.listed);
    CHECK(outcome.score_inc == Approx(3 / std::pow(2, 1.5)).epsilon(1e-3));  // a second may pass
    CHECK(view(view_from(network)).score_inc == 0);
  }
  CHECK(stats(kId).views_pv == 29);
  CHECK(ids(accumulate_query()).empty());
  age(600);
  CHECK(view(view_from(29)).outcome.listed);
  CHECK(ids(accumulate_query()) == std::vector<std::string>{kId});
  CHECK(score(keys().partition(0).rank(hot::kViewsModel), kId) ==
        Approx(90 / std::pow(2, 1.5)).epsilon(1e-3));
  CHECK(stats(kId).views_total == 90);
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
  CHECK(stats(kId).views_pv == 3);
}

TEST_CASE_METHOD(UnlistedFixture, "spooled events count by network, too", "[unlisted]") {
  for (int i = 0; i < 3; ++i) REQUIRE(hot->spool_track(report_from(i % 2)));
  REQUIRE(hot->spool_view(view_from(2)));
  write_queue.replay();
  CHECK(stats(kId).pv == 2);
  CHECK(stats(kId).views_pv == 3);
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

namespace {

// A put article, and events beyond limits.pv_per_network.
struct RefusedFixture : UnlistedFixture {
  RefusedFixture() { put(item(kId, now())); }
  hot::TrackResult refused_report(const std::string& visitor, const std::string& session,
                                  std::int64_t dwell_ms = 1000, const std::string& event_id = {}) {
    return track(report(visitor, session, dwell_ms, event_id, false));
  }
  hot::TrackResult counted_report(const std::string& visitor, const std::string& session,
                                  std::int64_t dwell_ms = 1000, const std::string& event_id = {}) {
    return track(report(visitor, session, dwell_ms, event_id, true));
  }
  static hot::TrackEvent report(const std::string& visitor, const std::string& session, std::int64_t dwell_ms,
                                const std::string& event_id, bool may_count) {
    hot::TrackEvent event = track_event(kId, visitor, dwell_ms, session);
    event.admission = admission_from(0);
    event.admission.may_count = may_count;
    event.event_id = EventId::trusted(event_id);
    event.attributed_to = event.visitor;
    return event;
  }
  static hot::ViewEvent seen(const std::string& fingerprint, bool may_count,
                             const std::string& event_id = {}) {
    hot::ViewEvent event = view_event(kId, fingerprint);
    event.admission = admission_from(0);
    event.admission.may_count = may_count;
    event.event_id = EventId::trusted(event_id);
    event.attributed_to = VisitorId::trusted(fingerprint);
    return event;
  }
};

}  // namespace

TEST_CASE_METHOD(RefusedFixture, "a report beyond limits.pv_per_network writes nothing for a new session",
                 "[unlisted]") {
  for (const char* session : {"s", "t"}) {
    const auto before = all_keys();
    const std::string version = field(kId, "v");
    for (int i = 0; i < 3; ++i) {
      const hot::TrackResult refused = refused_report("x", "new", 180000, "e");
      CHECK(refused.outcome.refused);
      CHECK_FALSE(refused.outcome.counted);
      CHECK(refused.outcome.listed);
      CHECK(refused.pv == (*session == 's' ? 0 : 1));
      CHECK(refused.uv == refused.pv);
    }
    CHECK(all_keys() == before);
    CHECK(field(kId, "v") == version);
    // The same report counts when it is granted.
    const hot::TrackResult counted = counted_report(session, session);
    CHECK(counted.outcome.counted);
    CHECK_FALSE(counted.outcome.refused);
    CHECK(counted.pv == (*session == 's' ? 1 : 2));
  }
  CHECK_FALSE(exists(keys().contributions("x")));
  CHECK(exists(keys().contributions("s")));
}

TEST_CASE_METHOD(RefusedFixture, "a report beyond the limit counts the reading time of a session that counts",
                 "[unlisted]") {
  counted_report("v", "s", 1000, "e");
  const hot::TrackResult longer = refused_report("v", "s", 5000);
  CHECK(longer.avg_dwell_ms == 5000);
  CHECK(longer.pv == 1);
  CHECK_FALSE(longer.outcome.refused);
  CHECK_FALSE(longer.outcome.counted);
  CHECK(field(kId, "ms") == "5000");
  // Not another visitor in the same session.
  CHECK(refused_report("w", "s", 1000).uv == 1);
  CHECK(counted_report("w", "s", 1000).uv == 2);
  // A repeated event gets its reply.
  CHECK_FALSE(refused_report("v", "another", 1000, "e").outcome.refused);
  const auto added = run_sync(hot::read_contributions(redis, keys(), "v"));
  REQUIRE(added->size() == 1);
  CHECK(added->front().contribution.pv == 1);
  CHECK(added->front().contribution.dwell_ms == 5000);
}

TEST_CASE_METHOD(RefusedFixture, "a session whose counters expired, or without a window, is a new one",
                 "[unlisted]") {
  counted_report("v", "s");
  command("HSET", keys().article(kId), "renewed", unix_s(now()) - 31 * 86400);
  CHECK(refused_report("v", "s").outcome.refused);
  CHECK(counted_report("v", "s").pv == 1);
  settings.engagement.session_window = seconds{0};
  open();
  CHECK(refused_report("v", "s").outcome.refused);
  CHECK(counted_report("v", "s").pv == 2);
}

TEST_CASE_METHOD(RefusedFixture, "a view beyond limits.pv_per_network writes nothing", "[unlisted]") {
  CHECK(view(seen("f", true)).outcome.counted);
  const auto before = all_keys();
  const std::string version = field(kId, "v");
  const hot::ViewResult refused = view(seen("g", false, "e"));
  CHECK(refused.outcome.refused);
  CHECK_FALSE(refused.dedup);
  CHECK(all_keys() == before);
  CHECK(field(kId, "v") == version);
  const hot::ViewResult again = view(seen("f", false));
  CHECK(again.dedup);
  CHECK_FALSE(again.outcome.refused);
  CHECK_FALSE(again.outcome.counted);
  CHECK(stats(kId).views_pv == 1);
  CHECK(stats(kId).uv_today == 1);
  CHECK(view(seen("g", true, "e")).outcome.counted);
  CHECK_FALSE(view(seen("g", false, "e")).outcome.refused);
  CHECK_FALSE(exists(keys().contributions("h")));
}

TEST_CASE_METHOD(RefusedFixture, "a spooled event counts later as it was admitted", "[unlisted]") {
  for (const bool may_count : {true, false}) {
    const std::string name = may_count ? "granted" : "refused";
    REQUIRE(hot->spool_track(report(name, name, 1000, {}, may_count)));
    REQUIRE(hot->spool_view(seen(name, may_count)));
  }
  write_queue.replay();
  CHECK(stats(kId).pv == 1);
  CHECK(stats(kId).uv == 1);
  CHECK(stats(kId).dwell_sum_ms == 1000);
  CHECK(stats(kId).views_pv == 2);
  CHECK(exists(keys().session(kId, "granted")));
  CHECK_FALSE(exists(keys().session(kId, "refused")));
}
