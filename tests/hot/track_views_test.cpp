// Page views of reports that count in the views model, too (views.from_track).
#include <cmath>
#include <random>

#include "core/hot/contributions.h"
#include "core/hot/rebuild.h"
#include "core/hot/views.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct TrackViewsFixture : Fixture {
  double views_score(const std::string& id) { return rank_score(id, hot::kViewsModel).value_or(0); }
  static hot::TrackEvent attributed(hot::TrackEvent event) {
    event.attributed_to = event.visitor;
    return event;
  }
  // The highest total of the bucket of mode = current that this time belongs to.
  double bucket_total(UnixSeconds published) {
    const auto heads = run_sync(hot->bucket_heads({{unix_s(published) / kHourSeconds}}, 0, 10));
    REQUIRE(heads);
    return heads->empty() ? 0 : heads->front().total;
  }
};

const double kNewArticle = std::pow(2.0, 1.5);  // the divisor of an article's first seconds

}  // namespace

TEST_CASE_METHOD(TrackViewsFixture, "a page view that a report counts is a view, in both modes",
                 "[track_views]") {
  const UnixSeconds published = now() - seconds{5 * 3600};
  put(item("a", published));
  const double divisor = std::pow(7.0, 1.5);
  track(track_event("a", "v", 1000, "s1"));
  CHECK(views_score("a") == Approx(3 / divisor).epsilon(1e-3));
  CHECK(ids(accumulate_query()) == std::vector<std::string>{"a"});
  CHECK(bucket_total(published) == 3);
  CHECK(stats("a").uv_today == 1);

  // Later reports of the session count no page view.
  track(track_event("a", "v", 9000, "s1"));
  CHECK(stats("a").views_pv == 1);
  CHECK(bucket_total(published) == 3);

  track(track_event("a", "v", 0, "s2"));  // another page view, by the same visitor of the day
  CHECK(views_score("a") == Approx(4 / divisor).epsilon(1e-3));
  track(track_event("a", "w", 0, "s3"));
  CHECK(views_score("a") == Approx(7 / divisor).epsilon(1e-3));
  CHECK(bucket_total(published) == 7);
  CHECK(stats("a").views_pv == stats("a").pv);
  CHECK(stats("a").views_total == 7);
  CHECK(stats("a").uv_today == 2);
}

TEST_CASE_METHOD(TrackViewsFixture, "the session's window is the deduplication of its views",
                 "[track_views]") {
  settings.views.dedup_window = seconds{1};
  track(track_event("a", "v", 0));
  CHECK(command("KEYS", "hot:dedup:*").size() == 0);
  track(track_event("a", "v", 5000));
  CHECK(stats("a").views_pv == 1);
  command("DEL", keys().session("a", "v"));
  track(track_event("a", "v", 5000));
  CHECK(stats("a").views_pv == 2);
  CHECK(stats("a").views_total == 4);
  // A view by POST /api/views has its own deduplication.
  CHECK(view(view_event("a", "v")).first_today == false);
  CHECK(view(view_event("a", "v")).dedup);
  CHECK(stats("a").views_pv == 3);
}

TEST_CASE_METHOD(TrackViewsFixture, "with views.from_track = false a report counts no view",
                 "[track_views]") {
  settings.views.from_track = false;
  open();
  track(track_event("a", "v", 0));
  CHECK(stats("a").pv == 1);
  CHECK(stats("a").views_pv == 0);
  CHECK(ids(accumulate_query()).empty());
  CHECK_FALSE(exists(keys().uv_day("a", now())));
  CHECK(field("a", "increments").empty());
  view(view_event("a", "f"));
  const double before = views_score("a");
  track(track_event("a", "w", 0));
  CHECK(views_score("a") == before);
}

TEST_CASE_METHOD(TrackViewsFixture, "views of reports have the TTLs of views", "[track_views]") {
  settings.views.counter_ttl = seconds{90 * 86400};
  settings.views.uv_ttl = seconds{5 * 86400};
  open();
  track(track_event("a", "v", 0));
  CHECK(has_new_ttl(keys().article("a"), 90 * 86400));
  CHECK(has_new_ttl(keys().uv_hll("a"), 30 * 86400));
  const std::string day = keys().uv_day("a", now());
  CHECK(has_new_ttl(day, 5 * 86400));
  command("EXPIRE", day, 1000);
  track(track_event("a", "w", 0));
  CHECK(ttl(day) <= 1000);
  // Both kinds of counters are renewed once a day, and expire independently.
  command("EXPIRE", keys().article("a"), 1000);
  command("HSET", keys().article("a"), "viewed", unix_s(now()) - 86500);
  track(track_event("a", "x", 0));
  CHECK(has_new_ttl(keys().article("a"), 90 * 86400));
  put(item("a", now()));
  CHECK(ttl(keys().article("a")) == -1);
  const double score = views_score("a");
  command("HSET", keys().article("a"), "viewed", unix_s(now()) - 90 * 86400);
  CHECK(stats("a").views_pv == 0);
  track(track_event("a", "y", 0));
  CHECK(stats("a").views_pv == 1);
  CHECK(stats("a").pv == 4);
  CHECK(views_score("a") == Approx(score + 3 / kNewArticle).epsilon(1e-3));
}

TEST_CASE_METHOD(TrackViewsFixture, "a repeated event id counts one view", "[track_views]") {
  auto event = track_event("a", "v", 1000);
  event.event_id = EventId::trusted("e");
  event.attributed_to = event.visitor;
  track(event);
  const double score = views_score("a");
  // The worker that counted it was killed before it wrote the rank.
  command("ZREM", keys().partition(0).rank(hot::kViewsModel), "a");
  command("HDEL", keys().partition(0).rank_versions(hot::kViewsModel), "a");
  track(event);
  CHECK(stats("a").views_pv == 1);
  CHECK(views_score("a") == score);
  const auto contributions = run_sync(hot::read_contributions(redis, keys(), "v"));
  REQUIRE(contributions);
  CHECK(contributions->front().contribution.views == 1);
}

TEST_CASE_METHOD(TrackViewsFixture, "a report stored by an earlier version can be repeated",
                 "[track_views]") {
  auto event = track_event("a", "v", 1000);
  event.event_id = EventId::trusted("e");
  command("SET", keys().track_event("a", "e"), "5 4 3000 1700000000 1700000000 0 17 1700000000 0 0 0");
  CHECK(track(event).pv == 5);
}

TEST_CASE_METHOD(TrackViewsFixture, "a spooled report counts its view once, on its own day",
                 "[track_views]") {
  put(item("a", now() - seconds{4 * 86400}));
  auto event = track_event("a", "v", 1000);
  REQUIRE(hot->spool_track(event));
  write_queue.replay();
  write_queue.replay();
  CHECK(stats("a").views_pv == 1);
  auto late = track_event("a", "w", 1000);
  late.occurred_at = now() - seconds{2 * 86400};
  late.event_id = EventId::trusted("late");
  track(late);
  CHECK(text(command("SPOP", keys().uv_day("a", *late.occurred_at))) == "w");
  CHECK(stats("a").uv_today == 1);
  const double expected = 3 / std::pow(98.0, 1.5) + 3 / std::pow(50.0, 1.5);
  CHECK(views_score("a") == Approx(expected).epsilon(1e-3));
}

TEST_CASE_METHOD(TrackViewsFixture, "a report whose host has a wrong date counts under Redis' UTC day",
                 "[track_views]") {
  const auto k = keys();
  const std::int64_t day = unix_s(now()) / 86400 + 1;
  redis::Pipeline wrong;
  wrong.script(scripts::kTrack).key(k.article("a")).key(k.uv_hll("a")).key(k.session("a", "s"));
  wrong.key(k.uv_day("a", UnixSeconds{seconds{day * 86400}}));
  wrong.arg("v").arg(0).arg("").arg("").arg(1800).arg(2592000).arg(0).arg("").arg("");
  wrong.arg(day).arg(259200).arg(2592000).arg(1).arg(2).arg(2).arg(1.5);
  const auto replies = redis.call(wrong);
  REQUIRE(replies);
  CHECK(replies->front().error() == "DAY " + std::to_string(day - 1));
  CHECK(all_keys().empty());
}

TEST_CASE_METHOD(TrackViewsFixture, "what a visitor's reports added to the views is reverted",
                 "[track_views]") {
  for (const char* id : {"a", "clean"}) put(item(id, now() - seconds{7200}));
  for (const std::string visitor : {"x", "fraud", "y"}) {
    for (const std::string session : {"1", "2"}) {
      track(attributed(track_event("a", visitor, 1000, visitor + session)));
      if (visitor != "fraud") track(track_event("clean", visitor, 1000, visitor + session));
    }
  }
  const auto contributions = run_sync(hot::read_contributions(redis, keys(), "fraud"));
  REQUIRE(contributions);
  CHECK(contributions->front().contribution.views == 2);
  CHECK(contributions->front().contribution.first_views == 1);
  CHECK(contributions->front().contribution.views_score == Approx(4 / std::pow(4.0, 1.5)).epsilon(1e-3));
  REQUIRE(run_sync(hot::revert_contributions(redis, settings, keys(), "fraud", {ItemId::trusted("a")})));
  CHECK(stats("a").pv == 4);
  CHECK(stats("a").views_pv == 4);
  CHECK(stats("a").views_total == Approx(8));
  CHECK(views_score("a") == Approx(views_score("clean")).epsilon(1e-3));

  track(attributed(track_event("only", "fraud", 0)));
  REQUIRE(run_sync(hot::revert_contributions(redis, settings, keys(), "fraud", {ItemId::trusted("only")})));
  CHECK_FALSE(rank_score("only", hot::kViewsModel));
}

TEST_CASE_METHOD(TrackViewsFixture, "a refused report counts no view", "[track_views]") {
  put(item("a", now()));
  auto event = track_event("a", "v", 1000);
  event.admission = {.network = "n", .wide_network = "w", .may_count = false};
  CHECK(track(event).outcome.refused);
  CHECK(ids(accumulate_query()).empty());
  event.admission.may_count = true;
  track(event);
  event.admission.may_count = false;
  event.dwell_ms = 5000;
  track(event);  // adds reading time
  CHECK(stats("a").views_pv == 1);
}

TEST_CASE_METHOD(TrackViewsFixture,
                 "views of a hidden item are counted for the site, and ranked when it is shown",
                 "[track_views]") {
  auto one = item("a", now() - seconds{3600});
  one.hidden = true;
  put(one);
  track(track_event("a", "v", 0));
  auto client = track_event("a", "w", 0);
  client.admission = {.network = "n", .wide_network = "w"};
  track(client);  // as if the id were unknown
  CHECK(ids(accumulate_query()).empty());
  CHECK(stats("a").views_pv == 1);
  one.hidden = false;
  put(one);
  CHECK(ids(accumulate_query()) == std::vector<std::string>{"a"});
  CHECK(stats("a").views_total == 3);
}

namespace {

struct UnlistedViewsFixture : TrackViewsFixture {
  static hot::TrackEvent report_from(int network, const std::string& id = "u") {
    const std::string name = std::to_string(10 + network);
    hot::TrackEvent event = track_event(id, "v" + name, 1000, "s" + name);
    event.admission = {.network = name + "-network", .wide_network = name + "-wide"};
    event.attributed_to = event.visitor;
    return event;
  }
};

}  // namespace

TEST_CASE_METHOD(UnlistedViewsFixture,
                 "a report counts a view of an unverified article once per network, and ranks it when listed",
                 "[track_views]") {
  settings.items_unknown_networks = 4;
  settings.views.counter_ttl = seconds{90 * 86400};
  open();
  auto repeated = report_from(0);
  repeated.event_id = EventId::trusted("e");
  for (int again = 0; again < 3; ++again) track(repeated);
  for (int network = 1; network < 3; ++network) {
    track(report_from(network));
    track(report_from(network));
  }
  CHECK(stats("u").views_pv == 3);
  CHECK(stats("u").views_total == 9);
  CHECK(ids(accumulate_query()).empty());
  CHECK(has_new_ttl(keys().article("u"), 3600));
  CHECK_FALSE(exists(keys().contributions("v10")));
  command("HINCRBY", keys().article("u"), "nets_since", -600);
  CHECK(track(report_from(3)).outcome.listed);
  CHECK(has_new_ttl(keys().article("u"), 90 * 86400));
  CHECK(ids(accumulate_query()) == std::vector<std::string>{"u"});
  CHECK(views_score("u") == Approx(12 / kNewArticle).epsilon(1e-3));
  const auto contributions = run_sync(hot::read_contributions(redis, keys(), "v13"));
  REQUIRE(contributions);
  REQUIRE(contributions->size() == 1);
  CHECK(contributions->front().contribution.views == 1);
  CHECK(contributions->front().contribution.first_views == 1);
  CHECK(contributions->front().contribution.views_score == Approx(3 / kNewArticle).epsilon(1e-3));
  // From now on by session.
  track(report_from(5));
  CHECK(stats("u").views_pv == 5);
}

TEST_CASE_METHOD(UnlistedViewsFixture, "a report that verifies an article ranks the views of networks",
                 "[track_views]") {
  SECTION("through the internal server") {
    for (int network = 0; network < 3; ++network) track(report_from(network));
    track(track_event("u", "site", 0));
    CHECK(views_score("u") == Approx(12 / kNewArticle).epsilon(1e-3));
  }
  SECTION("as the last network, also if only views counted before") {
    settings.views.from_track = false;
    settings.items_unknown_networks = 2;
    open();
    auto viewed = view_event("u", "f");
    viewed.admission = report_from(0).admission;
    view(viewed);
    command("HINCRBY", keys().article("u"), "nets_since", -600);
    CHECK(track(report_from(1)).outcome.listed);
    CHECK(views_score("u") == Approx(3 / kNewArticle).epsilon(1e-3));
  }
}

TEST_CASE_METHOD(TrackViewsFixture, "the site's first date recomputes the views of clients' reports",
                 "[track_views]") {
  settings.items_unknown = "list";
  open();
  const UnixSeconds clients = now() - seconds{86400}, sites = now() - seconds{7200};
  for (const std::string visitor : {"a", "b", "c"}) {
    auto event = track_event("a", visitor, 0);
    event.published_at = clients;
    event.admission = {.network = "n", .wide_network = "w"};
    track(event);
  }
  CHECK(views_score("a") == Approx(9 / std::pow(26.0, 1.5)).epsilon(1e-3));
  CHECK_FALSE(field("a", "increments").empty());
  double expected = 9 / std::pow(4.0, 1.5);
  SECTION("with a PUT") { put(item("a", sites)); }
  SECTION("with a report that counts a view itself") {
    auto event = track_event("a", "site", 0);
    event.published_at = sites;
    track(event);
    expected *= 4.0 / 3;
  }
  CHECK(views_score("a") == Approx(expected).epsilon(1e-3));
  CHECK(field("a", "increments").empty());
}

TEST_CASE("after random reports and views both modes equal brute force over the raw events",
          "[property][track_views]") {
  std::mt19937 random(11);
  const auto below = [&](int bound) { return std::uniform_int_distribution(0, bound - 1)(random); };
  for (int round = 0; round < 12; ++round) {
    Fixture fixture;
    fixture.partitions = round % 2 == 0 ? 1 : 16;
    fixture.open();
    const int n_articles = 1 + below(20);
    std::vector<UnixSeconds> published;
    for (int i = 0; i < n_articles; ++i) {
      published.push_back(fixture.now() - seconds{below(10 * 86400)});
      if (below(2) == 0) fixture.put(fixture.item("art-" + std::to_string(i), published.back()));
    }
    struct Model {
      std::set<std::string> sessions, visitors, fingerprints;
      double total = 0, score = 0;
      std::int64_t views = 0;
    };
    std::map<std::string, Model> models;
    const std::int64_t day = unix_s(fixture.now()) / 86400;
    for (int i = 0; i < 300; ++i) {
      const auto article = static_cast<std::size_t>(below(n_articles));
      const std::string id = "art-" + std::to_string(article), who = "v" + std::to_string(below(15));
      Model& model = models[id];
      bool counts = false;
      std::string visitor = who;
      if (below(3) > 0) {
        const std::string session = who + "." + std::to_string(below(3));
        auto event = Fixture::track_event(id, who, below(1000), session);
        event.published_at = published[article];
        fixture.track(event);
        counts = model.sessions.insert(session).second;
      } else {
        visitor = "f" + who;
        auto event = Fixture::view_event(id, visitor);
        event.published_at = published[article];
        fixture.view(event);
        counts = model.fingerprints.insert(visitor).second;
      }
      if (!counts) continue;
      const double weight = model.visitors.insert(visitor).second ? 3 : 1;
      ++model.views;
      model.total += weight;
      model.score += hot::view_score(weight, published[article], fixture.now(), fixture.settings.views);
    }
    if (unix_s(fixture.now()) / 86400 != day) continue;  // visitors were new again at midnight
    std::set<std::string> ranked;
    for (const auto& each : fixture.scan_rank(accumulate_query())) ranked.insert(each.item.str());
    CHECK(ranked.size() == models.size());
    for (const auto& [id, model] : models) {
      INFO(id);
      const auto stats = fixture.stats(id);
      CHECK(stats.views_pv == model.views);
      CHECK(stats.uv_today == static_cast<std::int64_t>(model.visitors.size()));
      CHECK(stats.views_total == model.total);
      CHECK(stats.position(hot::kViewsModel).score.value_or(0) == Approx(model.score).epsilon(1e-3));
    }
    REQUIRE(run_sync(hot::rebuild_ranks(fixture.redis, fixture.settings, fixture.keys())));
  }
}
