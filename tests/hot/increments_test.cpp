// The publish time of articles that clients report before the site dates them: whose date counts,
// and the accumulated score that is recomputed from the increments of views.
#include <cmath>
#include <random>

#include "core/hot/contributions.h"
#include "core/hot/views.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr std::size_t kMaxBytes = 640, kMaxUnlistedBytes = 60;
constexpr std::int64_t kHour = 3600, kDay = 86400;

struct BirthFixture : Fixture {
  BirthFixture() {
    settings.items_unknown = "list";
    open();
  }
  static hot::EventAdmission client() { return {.network = "network", .wide_network = "wide-network"}; }

  hot::TrackEvent report(const std::string& visitor, std::optional<UnixSeconds> published = std::nullopt) {
    hot::TrackEvent event = track_event("a", visitor, 0);
    event.published_at = published;
    return event;
  }
  hot::ViewEvent seen(const std::string& fingerprint, std::optional<UnixSeconds> published = std::nullopt) {
    hot::ViewEvent event = view_event("a", fingerprint);
    event.published_at = published;
    return event;
  }
  template <class Event>
  static Event of_client(Event event) {
    event.admission = client();
    return event;
  }
  double accumulated() { return *score(keys().partition(0).rank(hot::kViewsModel), "a"); }
  std::int64_t published() { return static_cast<std::int64_t>(*score(keys().partition(0).published(), "a")); }
  double decay(std::int64_t seconds_of_age) const {
    return 1 / hot::power_law(static_cast<double>(std::max<std::int64_t>(seconds_of_age, 0)) / 3600,
                              settings.views);
  }
};

}  // namespace

TEST_CASE_METHOD(BirthFixture, "the site's date replaces a client's, in all ranks", "[increments]") {
  const UnixSeconds now = this->now(), clients = now - seconds{kDay}, sites = now - seconds{2 * kHour};
  track(of_client(report("v", clients)));
  view(of_client(seen("f", clients)));
  CHECK(stats("a").decay_start == clients);
  CHECK(accumulated() == Approx(3 * decay(kDay)).epsilon(1e-3));
  double expected = 3 * decay(2 * kHour);
  SECTION("with a PUT") { put(item("a", sites)); }
  SECTION("with a report") {
    CHECK(track(report("v", sites)).score == Approx(4 * std::exp2(-2.0 / 24)).epsilon(1e-3));
  }
  SECTION("with a view") {
    view(seen("g", sites));
    expected *= 2;
  }
  SECTION("with a spooled view") {
    REQUIRE(hot->spool_view(seen("g", sites)));
    write_queue.replay();
    flush_deferred();
    expected *= 2;
  }
  CHECK(stats("a").decay_start == sites);
  CHECK(accumulated() == Approx(expected).epsilon(1e-3));
  CHECK(score(keys().partition(0).rank(hot::kEngagementModel), "a") == rank_score("a"));
  CHECK(hot::score_at(*rank_score("a"), now, settings.engagement.half_life) ==
        Approx(4 * std::exp2(-2.0 / 24)).epsilon(1e-3));
  CHECK(published() == unix_s(sites));
  CHECK(field("a", "increments").empty());
  // No later report changes it.
  track(of_client(report("w", now)));
  view(of_client(seen("h", now)));
  view(seen("i", now));
  track(report("x", now));
  CHECK(stats("a").decay_start == sites);
  CHECK(field("a", "increments").empty());
  CHECK(accumulated() == Approx(expected + 6 * decay(2 * kHour)).epsilon(1e-3));
  REQUIRE(run_sync(hot::rebuild_ranks(redis, settings, keys())));
  CHECK(hot::score_at(*rank_score("a"), now, settings.engagement.half_life) ==
        Approx(stats("a").pv + 3 * stats("a").uv).epsilon(1).margin(12 * .06));
}

TEST_CASE_METHOD(BirthFixture, "an event of the site that names no date dates nothing", "[increments]") {
  const UnixSeconds clients = now() - seconds{kDay};
  view(of_client(seen("f", clients)));
  view(seen("g"));
  track(report("v"));
  CHECK(stats("a").decay_start == clients);
  CHECK_FALSE(field("a", "increments").empty());
  put(item("a", clients));
  CHECK(accumulated() == Approx(6 * decay(kDay)).epsilon(1e-3));
  CHECK(field("a", "increments").empty());
}

TEST_CASE_METHOD(BirthFixture, "the site's date also replaces that of an unlisted article", "[increments]") {
  settings.items_unknown = "count";
  open();
  const UnixSeconds clients = now() - seconds{kDay}, sites = now() - seconds{kHour};
  for (const char* network : {"a", "b", "c", "d", "e"}) {
    hot::ViewEvent event = seen(network, clients);
    event.admission = {.network = network, .wide_network = std::string(network) + "-wide"};
    event.occurred_at = now() - seconds{(network[0] - 'a') * 300};
    view(event);
    CHECK(field("a", "increments").size() <= kMaxUnlistedBytes);
  }
  put(item("a", sites));
  double expected = 0;
  for (int i = 0; i < 5; ++i) expected += 3 * decay(kHour - i * 300);
  CHECK(accumulated() == Approx(expected).epsilon(0.02));
}

namespace {

struct Increment {
  std::int64_t time;
  double weight;
};

// Random sequences of views, each with its span. A lone first view: an article reported before its
// birth.
std::vector<Increment> random_views(std::mt19937& random, int shape, std::int64_t span, int count) {
  std::uniform_real_distribution<double> unit(0, 1);
  std::vector<double> centers;
  for (int i = 0; i < 5; ++i) centers.push_back(unit(random));
  std::vector<Increment> views;
  for (int i = 0; i < count; ++i) {
    const double u = unit(random);
    double at = u;                                                                    // evenly spread
    if (shape == 1) at = (std::exp(u * std::log(100.0)) - 1) / 99;                    // fewer and fewer
    if (shape == 2) at = std::pow(u, 0.2);                                            // more and more
    if (shape == 3) at = centers[static_cast<std::size_t>(i) % 5] * 0.99 + u * 0.01;  // bursts
    if (shape == 4) at = i == 0 ? 0 : 0.4 + 0.6 * u * u;  // after a lone first view
    views.push_back({std::llround(at * static_cast<double>(span)), unit(random) < 0.5 ? 1.0 : 3.0});
  }
  std::ranges::sort(views, {}, &Increment::time);
  return views;
}
constexpr int kShapes = 5;

}  // namespace

TEST_CASE_METHOD(
    BirthFixture,
    "the recomputed score is within 2 % of the exact one, or 5 % if the date is between the views of "
    "several days",
    "[increments]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto [base, gamma] =
      GENERATE(std::pair(2.0, 1.5), std::pair(1.0, 1.8), std::pair(3.0, 1.3), std::pair(2.0, 1.0));
  settings.views.base_hours = base;
  settings.views.gamma = gamma;
  settings.views.dedup_window = seconds{0};
  open();
  const std::int64_t span = GENERATE(3 * kHour, kDay, 10 * kDay, 90 * kDay);
  const int shape = GENERATE(range(0, kShapes));
  INFO("base " << base << " gamma " << gamma << " span " << span << " shape " << shape);
  const UnixSeconds begin = now() - seconds{span};
  std::vector<Increment> views = random_views(random, shape, span, 300);
  std::vector<hot::ViewEvent> sequence;
  for (std::size_t i = 0; i < views.size(); ++i) {
    // A known fingerprint counts 1, another 3.
    const std::string fingerprint = "f" + std::to_string(i);
    hot::ViewEvent event = of_client(seen(fingerprint, begin));
    event.occurred_at = begin + seconds{views[i].time};
    if (views[i].weight == 1) command("SADD", keys().uv_day("a", *event.occurred_at), fingerprint);
    sequence.push_back(event);
  }
  // Some reports were spooled and arrive late.
  for (std::size_t i = 20; i < sequence.size(); i += 40) std::swap(sequence[i], sequence[i - 15]);
  for (const hot::ViewEvent& event : sequence) {
    REQUIRE(run_sync(hot->view(event)));
    REQUIRE(field("a", "increments").size() <= kMaxBytes);
  }
  flush_deferred();
  const std::int64_t first = views.front().time, last = views.back().time;
  const double kBound = 0.02, kBoundInside = span > kDay ? 0.05 : kBound;
  std::vector<std::pair<std::int64_t, double>> dates;
  for (const std::int64_t date : {first - 30 * kDay, first - kDay, first - kHour, first, last, last + kHour})
    dates.emplace_back(date, kBound);
  const bool any_date = span <= kDay || (span <= 10 * kDay && shape != 3);
  for (int i = 0; i < 4 && any_date; ++i)
    dates.emplace_back(std::uniform_int_distribution<std::int64_t>(first, last)(random), kBoundInside);
  if (shape == 4) dates.emplace_back(views[1].time, span > 10 * kDay ? kBoundInside : kBound);
  const auto saved = command("DUMP", keys().article("a"));
  for (const auto& [date, bound] : dates) {
    command("RESTORE", keys().article("a"), 0, text(saved), "REPLACE");
    put(item("a", begin + seconds{date}));
    double expected = 0;
    for (const Increment& each : views) expected += each.weight * decay(each.time - date);
    INFO("dated " << date << " of " << first << " to " << last);
    CHECK(redis::parse_or_zero<double>(field("a", "score")) == Approx(expected).epsilon(bound));
    remove("a");
    command("DEL", keys().item("a"));
  }
}
