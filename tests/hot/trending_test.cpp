// The trending model: sums kept by scripts, compared with a brute-force sum over all views.
#include "core/hot/trending.h"

#include <cmath>
#include <random>

#include "core/hot/article.h"
#include "core/hot/contributions.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr std::int64_t kDay = 86400;

struct TrendingFixture : Fixture {
  // The views of each article, without the one it entered with.
  std::map<std::string, std::vector<UnixSeconds>> views;

  void report_at(const std::string& id, const std::string& visitor, UnixSeconds time) {
    hot::TrackEvent event = track_event(id, visitor, 0);
    event.occurred_at = time;
    track(event);
    views[id].push_back(time);
  }
  hot::TrendSums sums(const std::string& id) { return hot::parse_trend(field(id, "trend")).value(); }
  // Σ 2^(−(at − t)/h) over all views, and the views that the article entered with.
  double expected(const std::string& id, UnixSeconds published, seconds half_life, UnixSeconds at) const {
    const auto decayed = [&](UnixSeconds time) { return std::exp2(-hot::half_lives(at - time, half_life)); };
    double sum = settings.trending.birth_views * decayed(published);
    for (const UnixSeconds time : views.at(id)) sum += decayed(time);
    return sum;
  }
  void check_sums(const std::string& id, UnixSeconds published) {
    const hot::TrendSums found = sums(id);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const seconds half_life = kTrendingHalfLives[i];
      for (const seconds later : {seconds(0), seconds(7 * 3600), seconds(3 * kDay)}) {
        INFO(id << ", half-life " << half_life.count() << " s");
        const UnixSeconds at = now() + later;
        CHECK(hot::score_at(found[i], at, half_life) ==
              Approx(expected(id, published, half_life, at)).epsilon(1e-6).margin(1e-8));
      }
    }
  }
  double trending_key(const std::string& id) { return rank_score(id, hot::kTrendingModel).value(); }
};

}  // namespace

TEST_CASE_METHOD(TrendingFixture, "the sums are those of all views, in whatever order they arrive",
                 "[trending]") {
  settings.trending.birth_views = GENERATE(0.0, 1.0, 25.0);
  open();
  std::mt19937 random(7);
  const UnixSeconds published = now() - seconds(2 * kDay);
  put(item("a", published));
  put(item("b", published));
  for (int i = 0; i < 300; ++i) {
    const std::string id = i % 3 == 0 ? "b" : "a";
    report_at(id, "v" + std::to_string(i), published + seconds(random() % (2 * kDay)));
  }
  check_sums("a", published);
  check_sums("b", published);
  // The rank orders articles as their sums do, and holds the sum of the configured half-life.
  CHECK(trending_key("a") == sums("a")[2]);
  const auto listed = scan_rank({.model = &hot::kTrendingModel});
  REQUIRE(listed.size() == 2);
  CHECK(listed.front().score == std::max(sums("a")[2], sums("b")[2]));
}

TEST_CASE_METHOD(TrendingFixture, "each half-life has its rank after a rebuild", "[trending]") {
  const UnixSeconds now = this->now();
  put(item("old", now - seconds(kDay)));
  put(item("new", now - seconds(600)));
  for (int i = 0; i < 40; ++i) report_at("old", "v" + std::to_string(i), now - seconds(5 * 3600));
  for (int i = 0; i < 4; ++i) report_at("new", "v" + std::to_string(i), now - seconds(60));
  const hot::ListQuery query{.model = &hot::kTrendingModel};
  for (std::size_t i = 0; i < kTrendingHalfLives.size(); ++i) {
    settings.trending.half_life = kTrendingHalfLives[i];
    open();
    REQUIRE(run_sync(hot::rebuild_ranks(redis, settings, keys())));
    CHECK(trending_key("old") == sums("old")[i]);
    const bool is_short = kTrendingHalfLives[i] < seconds(6 * 3600);
    CHECK(ids(query) ==
          (is_short ? std::vector<std::string>{"new", "old"} : std::vector<std::string>{"old", "new"}));
  }
}

TEST_CASE_METHOD(TrendingFixture, "a report that counts no page view leaves the sums as they are",
                 "[trending]") {
  hot::TrackEvent event = track_event("a", "v", 1000);
  event.event_id = EventId::trusted("event");
  track(event);
  const std::string once = field("a", "trend");
  REQUIRE(once.size() == 40);
  track(event);                        // the same event
  track(track_event("a", "v", 9000));  // the same session
  CHECK(field("a", "trend") == once);
}

TEST_CASE_METHOD(TrendingFixture, "a repeated event ranks an article whose first reply was lost",
                 "[trending]") {
  hot::TrackEvent report = track_event("a", "v", 0);
  hot::ViewEvent seen = view_event("b", "f");
  report.event_id = EventId::trusted("report");
  seen.event_id = EventId::trusted("view");
  const auto send = [&] {
    REQUIRE(run_sync(hot->track(report)));
    REQUIRE(run_sync(hot->view(seen)));
  };
  send();
  open();  // the rank updates of the first replies are lost
  send();
  flush_deferred();
  CHECK(trending_key("a") == sums("a")[2]);
  CHECK(trending_key("b") == sums("b")[2]);
}

TEST_CASE_METHOD(TrendingFixture, "views count as page views do", "[trending]") {
  settings.trending.birth_views = 0;
  open();
  view(view_event("only-views", "f"));
  view(view_event("only-views", "g"));
  track(track_event("both", "v", 0));
  for (const char* visitor : {"f", "g"}) view(view_event("both", visitor));
  const auto score_of = [&](const std::string& id) {
    return hot::score_at(trending_key(id), now(), settings.trending.half_life);
  };
  CHECK(score_of("only-views") == Approx(2).epsilon(0.01));
  CHECK(score_of("both") == Approx(3).epsilon(0.01));
}

TEST_CASE_METHOD(TrendingFixture,
                 "views counted while the clock was ahead lose their lead with the next view", "[trending]") {
  settings.trending.birth_views = 0;
  open();
  const UnixSeconds published = now() - seconds(kDay);
  put(item("a", published));
  report_at("a", "v", now());
  hot::TrendSums ahead = sums("a");
  for (std::size_t i = 0; i < ahead.size(); ++i)
    ahead[i] += hot::half_lives(seconds(kDay), kTrendingHalfLives[i]);
  command("HSET", keys().article("a"), "trend", hot::encode_trend(ahead));
  report_at("a", "w", now());
  for (std::size_t i = 0; i < ahead.size(); ++i)
    CHECK(hot::score_at(sums("a")[i], now(), kTrendingHalfLives[i]) <= 4.001);  // pv + views
}

TEST_CASE_METHOD(TrendingFixture, "a revert leaves the sums of the other visitors", "[trending]") {
  const UnixSeconds published = now() - seconds(kDay);
  put(item("a", published));
  put(item("b", published));
  report_at("a", "reader", now() - seconds(7200));
  for (int i = 0; i < 30; ++i) {
    for (const char* id : {"a", "b"}) {
      hot::TrackEvent event = track_event(id, "fraud", 0, "s" + std::to_string(i));
      event.occurred_at = now() - seconds(100 * i);
      event.attributed_to = event.visitor;
      track(event);
    }
  }
  const auto reverted = run_sync(hot::revert_contributions(redis, settings, keys(), "fraud",
                                                           {ItemId::trusted("a"), ItemId::trusted("b")}));
  REQUIRE(reverted);
  check_sums("a", published);
  CHECK(trending_key("a") == sums("a")[2]);
  CHECK(field("b", "trend").empty());
  CHECK_FALSE(rank_score("b", hot::kTrendingModel));
}

TEST_CASE("logarithmic sums add and subtract without overflow", "[trending]") {
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(hot::add_log2(-infinity, -infinity) == -infinity);
  CHECK(hot::add_log2(3, -infinity) == 3);
  CHECK(hot::add_log2(3, 3) == Approx(4));
  CHECK(hot::add_log2(1e6, 1) == 1e6);
  CHECK(hot::subtract_log2(4, 3) == Approx(3));
  CHECK(hot::subtract_log2(4, -infinity) == 4);
  CHECK(hot::subtract_log2(4, 4) == -infinity);
  CHECK(hot::subtract_log2(3, 4) == -infinity);
}

TEST_CASE("the median age is that of all views if they have one age, and within the half-lives",
          "[trending]") {
  const UnixSeconds now{seconds(1'800'000'000)};
  const auto age_of = [&](seconds age) {
    hot::TrendSums sums = hot::trend_of_view(now - age);
    for (double& each : sums) each += 10;  // 1,024 views
    return hot::median_age(sums, 1024, now);
  };
  CHECK(age_of(seconds(10)) == seconds(300));
  CHECK(age_of(seconds(900)) == seconds(900));
  CHECK(age_of(seconds(21600)) == seconds(21600));
  CHECK(age_of(seconds(7200)).count() == Approx(7200).epsilon(0.2));
  CHECK(age_of(seconds(10 * kDay)) == seconds(kDay));
}
