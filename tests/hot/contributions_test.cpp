// Recording visitors' contributions, and reverting them.
#include "core/hot/contributions.h"

#include <random>

#include "tests/support/repeat_count.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr std::string_view kFraud = "fraud";

struct RevertFixture : Fixture {
  static hot::TrackEvent report(const std::string& id, const std::string& visitor, std::int64_t dwell_ms,
                                const std::string& session = {}) {
    hot::TrackEvent out = Fixture::track_event(id, visitor, dwell_ms, session);
    out.attributed_to = out.visitor;
    return out;
  }
  static hot::ViewEvent seen(const std::string& id, const std::string& visitor,
                             const std::string& fingerprint = {}) {
    hot::ViewEvent out = Fixture::view_event(id, fingerprint.empty() ? visitor : fingerprint);
    out.attributed_to = VisitorId::trusted(visitor);
    return out;
  }
  std::vector<hot::ItemContribution> contributions(std::string_view visitor = kFraud) {
    auto out = run_sync(hot::read_contributions(redis, keys(), visitor));
    REQUIRE(out);
    return *out;
  }
  std::vector<hot::ItemContribution> revert(const std::vector<hot::ItemContribution>& contributions) {
    std::vector<ItemId> ids;
    for (const hot::ItemContribution& each : contributions) ids.push_back(each.item);
    auto out = run_sync(hot::revert_contributions(redis, settings, keys(), kFraud, ids));
    INFO((out ? "" : out.error().detail));
    REQUIRE(out);
    return *out;
  }
  std::vector<hot::ItemContribution> revert() { return revert(contributions()); }
};

// Both items must have the same statistics, as if the fraudulent visitor had never visited
// `purged`.
void check_same_stats(RevertFixture& f, const std::string& purged, const std::string& clean) {
  const hot::ItemStats actual = f.stats(purged), reference = f.stats(clean);
  INFO(purged);
  CHECK(actual.pv == reference.pv);
  CHECK(actual.uv == reference.uv);
  CHECK(actual.dwell_sum_ms == reference.dwell_sum_ms);
  CHECK(actual.dwell_count == reference.dwell_count);
  CHECK(actual.views_pv == reference.views_pv);
  CHECK(actual.views_total == Approx(reference.views_total));
  for (const hot::Model& model : hot::kModels) {
    const auto actual_score = actual.position(model).score, expected = reference.position(model).score;
    CHECK(actual_score.has_value() == expected.has_value());
    // The two items were viewed at slightly different times.
    if (!actual_score || !expected) continue;
    const auto same = Approx(*expected);
    CHECK(*actual_score == (model.base != nullptr ? Approx(same).epsilon(0).margin(1e-9)
                            : model.is_computed() ? Approx(same).epsilon(0).margin(0.01)
                                                  : Approx(same).epsilon(1e-3)));
  }
  CHECK(f.score(f.keys().partition(0).published(), purged).has_value() ==
        f.score(f.keys().partition(0).published(), clean).has_value());
}

// A connection that is lost at a given step: before the commands are sent, or before their replies
// arrive.
struct FailingRedis final : redis::Redis {
  FailingRedis(redis::Redis& inner, int steps, bool sent) : inner_(inner), remaining_(steps), sent_(sent) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    if (remaining_-- > 0) {
      auto replies = co_await inner_.run(pipeline);
      co_return replies;
    }
    if (sent_) co_await inner_.run(pipeline);
    co_return fail(ErrorCode::kUnknownOutcome, "redis_lost");
  }
  bool ready() const override { return true; }

 private:
  redis::Redis& inner_;
  int remaining_;
  const bool sent_;
};

// A connection on which something else happens before a given step.
struct InterruptedRedis final : redis::Redis {
  InterruptedRedis(redis::Redis& inner, int steps, std::function<void()> interruption)
      : inner_(inner), remaining_(steps), interrupt_(std::move(interruption)) {}
  Task<Result<redis::Replies>> run(const redis::Pipeline& pipeline) override {
    if (remaining_-- == 0) interrupt_();
    auto replies = co_await inner_.run(pipeline);
    co_return replies;
  }
  bool ready() const override { return true; }
  bool interrupted() const { return remaining_ < 0; }

 private:
  redis::Redis& inner_;
  int remaining_;
  const std::function<void()> interrupt_;
};

}  // namespace

TEST_CASE_METHOD(RevertFixture, "contributions of a visitor are recorded for each article",
                 "[contributions]") {
  track(report("a", "fraud", 1000, "s1"));
  track(report("a", "fraud", 5000, "s1"));
  track(report("a", "fraud", 2000, "s1"));  // less than before: adds nothing
  track(report("a", "fraud", 700, "s2"));
  track(report("b", "fraud", 0));
  track(report("a", "reader", 9000));
  CHECK(view(seen("b", "fraud", "fingerprint")).first_today);
  CHECK(view(seen("b", "fraud", "fingerprint")).dedup);
  const auto found = contributions();
  REQUIRE(found.size() == 2);
  CHECK(found[0].item.view() == "a");
  CHECK(found[0].contribution.pv == 2);
  CHECK(found[0].contribution.uv == 1);
  CHECK(found[0].contribution.dwell_ms == 5700);
  CHECK(found[0].contribution.views == 2);  // a page view is a view, too
  CHECK(found[0].contribution.first_views == 1);
  CHECK(found[1].item.view() == "b");
  CHECK(found[1].contribution.pv == 1);
  CHECK(found[1].contribution.dwell_ms == 0);
  CHECK(found[1].contribution.views == 2);
  CHECK(found[1].contribution.first_views == 2);
  CHECK(found[1].contribution.views_score == Approx(*score(keys().partition(0).rank(hot::kViewsModel), "b")));
  CHECK(contributions("reader").size() == 1);
  CHECK(contributions("unknown").empty());
  for (const char* visitor : {"fraud", "reader"}) CHECK(has_new_ttl(keys().contributions(visitor), 86400));
}

TEST_CASE_METHOD(RevertFixture, "counters are not written over those of another version", "[contributions]") {
  track(report("a", "reader", 1000));
  const auto set_pv = [&](const std::string& version) {
    redis::Pipeline command;
    command.script(scripts::kArticleSet)
        .key(keys().article("a"))
        .arg(version)
        .arg("")
        .arg(0)
        .arg("pv")
        .arg(99);
    const auto replies = redis.call(command);
    REQUIRE(replies);
    return replies->front().integer().value_or(-1);
  };
  const std::string version = field("a", "v");
  track(report("a", "other", 1000));
  CHECK(set_pv(version) == 0);
  CHECK(stats("a").pv == 2);
  CHECK(set_pv(field("a", "v")) == 1);
  CHECK(stats("a").pv == 99);
}

TEST_CASE_METHOD(RevertFixture, "a revert leaves the counters as if the visitor had never come",
                 "[contributions]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 rng(seed);
  const auto below = [&](int bound) { return std::uniform_int_distribution(0, bound - 1)(rng); };
  const std::vector<std::string> ids{"a", "b", "c", "d"};
  const UnixSeconds date = wall_now() - seconds{7200};
  for (const std::string& id : ids) {
    put(item(id, date));
    put(item(id + "-clean", date));
  }
  for (int i = 0; i < 400; ++i) {
    const std::string& id = ids[static_cast<std::size_t>(below(4))];
    // Only the fraudulent visitor opens "d".
    const bool fraud = id == "d" || below(3) == 0;
    const std::string visitor = fraud ? "fraud" : "visitor" + std::to_string(below(6));
    const std::string session = visitor + "-" + std::to_string(below(5));
    const std::int64_t dwell = below(180000);
    if (below(2) == 0) {
      track(report(id, visitor, dwell, session));
      if (!fraud) track(report(id + "-clean", visitor, dwell, session));
    } else {
      view(seen(id, visitor, session));
      if (!fraud) view(seen(id + "-clean", visitor, session));
    }
  }
  const auto planned = contributions();
  const auto done = revert();
  REQUIRE(done.size() == planned.size());
  for (std::size_t i = 0; i < done.size(); ++i) {
    CHECK(done[i].item == planned[i].item);
    CHECK(done[i].contribution.pv == planned[i].contribution.pv);
    CHECK(done[i].contribution.dwell_ms == planned[i].contribution.dwell_ms);
    CHECK(done[i].contribution.views_score == planned[i].contribution.views_score);
  }
  for (const std::string& id : ids) check_same_stats(*this, id, id + "-clean");
  CHECK(command("HKEYS", keys().contributions("fraud")).size() == 1);  // only the batch names
  CHECK_FALSE(exists(keys().uv_hll("d")));
  CHECK(field("d", "pv").empty());
  CHECK(field("d", "views").empty());
}

TEST_CASE_METHOD(RevertFixture,
                 "a repeated revert, or one of a visitor without contributions, changes nothing",
                 "[contributions]") {
  for (const char* visitor : {"fraud", "reader"}) {
    track(report("a", visitor, 1000));
    view(seen("a", visitor));
  }
  const auto planned = contributions();
  revert();
  const hot::ItemStats after = stats("a");
  CHECK(after.pv == 1);
  for (const hot::ItemContribution& each : revert(planned))
    CHECK(each.contribution.pv + each.contribution.views == 0);
  CHECK(stats("a").pv == 1);
  CHECK(stats("a").uv == 1);
  CHECK(stats("a").views_pv == 2);
  CHECK(stats("a").dwell_sum_ms == 1000);
  CHECK(*rank_score("a") == *after.position(hot::kEngagementModel).score);
  CHECK(revert({}).empty());
}

TEST_CASE_METHOD(RevertFixture, "a revert interrupted at any step can be resumed and subtracts nothing twice",
                 "[contributions]") {
  const bool sent = GENERATE(false, true);
  for (int steps = 0;; ++steps) {
    CAPTURE(sent, steps);
    server().flush_all();
    put(item("a", wall_now() - seconds{3600}));
    put(item("a-clean", wall_now() - seconds{3600}));
    constexpr int kOthers = 10;
    for (int i = 0; i < kOthers; ++i) track(report("a", "fraud" + std::to_string(i), 1000));
    for (const char* visitor : {"fraud", "x", "y"}) {
      track(report("a", visitor, 1000, std::string("s") + visitor));
      view(seen("a", visitor));
      if (visitor == kFraud) continue;
      track(report("a-clean", visitor, 1000));
      view(seen("a-clean", visitor));
    }
    FailingRedis failing(redis, steps, sent);
    const std::vector<ItemId> targets{ItemId::trusted("a")};
    const bool done =
        run_sync(hot::revert_contributions(failing, settings, keys(), kFraud, targets)).has_value();
    // Readers still see the pending revert, and other visitors can be reverted in the meantime.
    for (int i = 0; i < kOthers; ++i)
      REQUIRE(
          run_sync(hot::revert_contributions(redis, settings, keys(), "fraud" + std::to_string(i), targets)));
    track(report("a", "fraud", 3000, "later"));
    CHECK(contributions().size() == 1);
    revert();
    check_same_stats(*this, "a", "a-clean");
    CHECK(contributions().empty());
    CHECK(command("HKEYS", keys().contributions(kFraud)).size() == 1);  // only the batch names
    if (done) break;
    REQUIRE(steps < 20);
  }
}

TEST_CASE_METHOD(
    RevertFixture,
    "a revert subtracts once, whatever happens to the visitor or the article before any of its steps",
    "[contributions]") {
  enum class Event : std::uint8_t { kAnotherRevert, kReport, kErasure, kExpiry };
  const Event event = GENERATE(Event::kAnotherRevert, Event::kReport, Event::kErasure, Event::kExpiry);
  for (int steps = 0;; ++steps) {
    CAPTURE(static_cast<int>(event), steps);
    REQUIRE(steps < 20);
    server().flush_all();
    for (const char* id : {"a", "a-clean"}) put(item(id, wall_now() - seconds{3600}));
    for (const char* visitor : {"fraud", "x", "y"}) {
      track(report("a", visitor, 1000));
      view(seen("a", visitor));
      if (std::string_view(visitor) == "fraud") continue;
      track(report("a-clean", visitor, 1000));
      view(seen("a-clean", visitor));
    }
    const std::vector<ItemId> targets{ItemId::trusted("a")};
    std::int64_t reverted_pv = 0;
    InterruptedRedis interrupted(redis, steps, [&] {
      switch (event) {
        case Event::kAnotherRevert:
          for (const hot::ItemContribution& each : revert()) reverted_pv += each.contribution.pv;
          return;
        case Event::kReport:
          return static_cast<void>(track(report("a", "fraud", 50, "another session")));
        case Event::kErasure:
          return static_cast<void>(command("DEL", keys().contributions(kFraud)));
        case Event::kExpiry:
          command("HSET", keys().article("a"), "renewed", unix_s(now()) - 31 * 86400);
          return;
      }
    });
    const auto done = run_sync(hot::revert_contributions(interrupted, settings, keys(), kFraud, targets));
    REQUIRE(done);
    if (!interrupted.interrupted()) break;
    reverted_pv += done->front().contribution.pv;
    if (event == Event::kAnotherRevert) CHECK(reverted_pv == 1);  // only one of them says so
    revert();                                                     // reports that came meanwhile
    const hot::ItemStats after = stats("a");
    if (event == Event::kExpiry) {
      CHECK(after.pv == 0);
      CHECK(after.uv == 0);
    } else if (event == Event::kErasure && steps < 2) {
      CHECK(after.pv == 3);  // erased before it was staged, so it is no longer known
    } else {
      check_same_stats(*this, "a", "a-clean");
    }
    CHECK(contributions().empty());
  }
}

TEST_CASE_METHOD(RevertFixture, "two visitors can be reverted one after the other", "[contributions]") {
  for (const char* visitor : {"fraud", "another", "x", "y"}) track(report("a", visitor, 1000));
  revert();
  CHECK(stats("a").uv == 3);
  REQUIRE(run_sync(hot::revert_contributions(redis, settings, keys(), "another", {ItemId::trusted("a")})));
  CHECK(stats("a").uv == 2);
  CHECK(stats("a").pv == 2);
}

TEST_CASE_METHOD(RevertFixture, "contributions after a revert are counted and recorded again",
                 "[contributions]") {
  track(report("a", "reader", 1000));
  track(report("a", "fraud", 1000));
  revert();
  const auto again = track(report("a", "fraud", 4000));  // the session continues: only the increase counts
  CHECK(again.pv == 1);
  CHECK(stats("a").dwell_sum_ms == 1000 + 3000);
  CHECK(track(report("a", "fraud", 50, "another")).pv == 2);
  // The HyperLogLog still contains the visitor.
  CHECK(stats("a").uv == 1);
  const auto found = contributions();
  REQUIRE(found.size() == 1);
  CHECK(found[0].contribution.pv == 1);
  CHECK(found[0].contribution.uv == 0);
  CHECK(found[0].contribution.dwell_ms == 3050);
}

TEST_CASE_METHOD(RevertFixture,
                 "reverted visitors stay reverted when the item is written or ranks are rebuilt",
                 "[contributions]") {
  put(item("a", wall_now() - seconds{3600}));
  for (const char* visitor : {"fraud", "x", "y"}) track(report("a", visitor, 1000));
  CHECK(stats("a").uv == 3);
  revert();
  const double z = *rank_score("a");
  CHECK(stats("a").uv == 2);
  put(item("a", wall_now() - seconds{3600}));
  CHECK(stats("a").uv == 2);
  CHECK(*rank_score("a") == Approx(z).margin(1e-4));
  REQUIRE(run_sync(hot::rebuild_ranks(redis, settings, keys())));
  CHECK(*rank_score("a") == Approx(z).margin(1e-4));
  CHECK(track(report("a", "z", 1000)).uv == 3);
  remove("a");
  put(item("a", wall_now() - seconds{3600}));
  CHECK(stats("a").uv == 3);
}

TEST_CASE_METHOD(RevertFixture, "the visitor correction expires with the counters", "[contributions]") {
  put(item("a", wall_now() - seconds{3600}));
  track(report("a", "fraud", 1000));
  track(report("a", "x", 1000));
  revert();
  CHECK(field("a", "uv_correction") == "1");
  command("HSET", keys().article("a"), "renewed", unix_s(now()) - 31 * 86400);
  CHECK(stats("a").uv == 0);
  CHECK(track(report("a", "y", 1000)).uv == 1);
  CHECK(field("a", "uv_correction").empty());
  CHECK(track(report("a", "z", 1000)).uv == 2);
}

TEST_CASE_METHOD(RevertFixture,
                 "a revert subtracts nothing from counters that started after the contributions",
                 "[contributions]") {
  enum class End : std::uint8_t { kExpired, kOnlyReports, kOnlyViews, kDeleted };  // with the hash
  const End end = GENERATE(End::kExpired, End::kOnlyReports, End::kOnlyViews, End::kDeleted);
  const bool is_put = GENERATE(false, true);
  CAPTURE(static_cast<int>(end), is_put);
  if (is_put && end != End::kDeleted) put(item("a", wall_now() - seconds{3600}));
  constexpr int kFrauds = 60, kHonest = 5;
  for (int i = 0; i < kFrauds; ++i) track(report("a", "fraud", 1000, "s" + std::to_string(i)));
  const std::int64_t expired = unix_s(now()) - 31 * 86400;
  const bool reports_end = end != End::kOnlyViews, views_end = end != End::kOnlyReports;
  if (end == End::kDeleted) command("DEL", keys().article("a"));
  if (end != End::kDeleted && reports_end) command("HSET", keys().article("a"), "renewed", expired);
  if (end != End::kDeleted && views_end) command("HSET", keys().article("a"), "viewed", expired);
  if (reports_end) command("DEL", keys().uv_hll("a"));
  for (int i = 0; i < kHonest; ++i) track(report("a", "reader" + std::to_string(i), 1000));
  CHECK(stats("a").pv == kHonest + (reports_end ? 0 : kFrauds));
  const auto done = revert();
  REQUIRE(done.size() == 1);
  CHECK(done[0].contribution.pv == (reports_end ? 0 : kFrauds));
  CHECK(done[0].contribution.views == (views_end ? 0 : kFrauds));
  CHECK(stats("a").pv == kHonest);
  CHECK(stats("a").uv == kHonest);
  CHECK(stats("a").dwell_sum_ms == 1000 * kHonest);
  CHECK(stats("a").views_pv == kHonest);
  for (const hot::Model& model : hot::kModels) CHECK(rank_score("a", model));
  // Later contributions are reverted.
  for (int i = 0; i < 3; ++i) track(report("a", "fraud", 1000, "later" + std::to_string(i)));
  CHECK(stats("a").pv == kHonest + 3);
  CHECK(revert()[0].contribution.pv == 3);
  CHECK(stats("a").pv == kHonest);
  CHECK(stats("a").views_pv == kHonest);
}

TEST_CASE_METHOD(RevertFixture,
                 "reverting a hidden item or one with expired counters does not add it to a rank",
                 "[contributions]") {
  put(item("a", wall_now() - seconds{3600}));
  for (const char* visitor : {"fraud", "x"}) {
    track(report("a", visitor, 1000));
    view(seen("a", visitor));
    track(report("b", visitor, 1000));
    view(seen("b", visitor));
  }
  auto hidden = item("a", wall_now() - seconds{3600});
  hidden.hidden = true;
  put(hidden);
  command("HSET", keys().article("b"), "renewed", unix_s(now()) - 31 * 86400);
  CHECK(revert().size() == 2);
  CHECK(stats("a").pv == 1);
  CHECK(stats("a").views_pv == 2);
  CHECK_FALSE(rank_score("a"));
  CHECK_FALSE(rank_score("a", hot::kViewsModel));
  CHECK(stats("b").pv == 0);
  CHECK_FALSE(rank_score("b"));
  CHECK(stats("b").views_pv == 2);
}

TEST_CASE_METHOD(RevertFixture, "a repeated event is recorded once, also if it came from the spool",
                 "[contributions]") {
  auto event = report("a", "fraud", 1000);
  event.event_id = EventId::trusted("e1");
  track(event);
  track(event);
  auto viewed = seen("a", "fraud");
  viewed.event_id = EventId::trusted("e2");
  view(viewed);
  view(viewed);
  auto late = report("b", "fraud", 500);
  auto late_view = seen("b", "fraud");
  late.event_id = late_view.event_id = EventId::trusted("e3");
  late.occurred_at = late_view.occurred_at = now() - seconds{60};
  for (int i = 0; i < 2; ++i) {
    track(late);
    view(late_view);
  }
  const auto found = contributions();
  REQUIRE(found.size() == 2);
  for (const hot::ItemContribution& each : found) {
    CHECK(each.contribution.pv == 1);
    CHECK(each.contribution.views == 2);  // one of them by the report
  }
}

TEST_CASE_METHOD(RevertFixture, "a batch written twice, as after a lost reply, is recorded once",
                 "[contributions]") {
  write_queue.hold = true;
  track(report("a", "fraud", 1000));
  track(report("b", "fraud", 1000));
  const auto held = write_queue.take_held();
  write_queue.hold = false;
  write_queue.run(held);
  track(report("a", "fraud", 3000));
  write_queue.run(held);
  const auto found = contributions();
  REQUIRE(found.size() == 2);
  for (const hot::ItemContribution& each : found) {
    CHECK(each.contribution.pv == 1);
    CHECK(each.contribution.uv == 1);
    CHECK(each.contribution.dwell_ms == (each.item.view() == "a" ? 3000 : 1000));
  }
  CHECK(command("HSTRLEN", keys().contributions("fraud"), "batches").integer() == 24);
  for (int i = 0; i < 30; ++i) track(report("c" + std::to_string(i), "fraud", 0));
  CHECK(command("HSTRLEN", keys().contributions("fraud"), "batches").integer() == 128);
}

TEST_CASE_METHOD(RevertFixture,
                 "thousands of visitors behind one id are recorded as the estimate counts them",
                 "[contributions][long]") {
  const int real = repeat_count(400, 1000), fake = 10 * real;
  const auto send_reports = [&](int n, const std::string& prefix, std::string_view counted_as) {
    for (int i = 0; i < n; ++i) {
      auto event = report("a", prefix + std::to_string(i), 10);
      event.attributed_to = VisitorId::trusted(std::string(counted_as));
      REQUIRE(run_sync(hot->track(event)));
    }
    flush_deferred();
  };
  send_reports(real, "r", "honest");
  send_reports(fake, "f", kFraud);
  CHECK(contributions()[0].contribution.uv == Approx(fake).epsilon(0.05));
  revert();
  CHECK(stats("a").pv == real);
  CHECK(std::abs(stats("a").uv - real) < fake / 20);  // within the estimate's error for all visitors
}

TEST_CASE_METHOD(RevertFixture,
                 "nothing is recorded when contributions are disabled or the visitor id is empty",
                 "[contributions]") {
  const bool disabled = GENERATE(true, false);
  CAPTURE(disabled);
  if (disabled) settings.limits.contribution_ttl = seconds{0};
  open();
  track(report("a", "fraud", 1000));
  view(seen("a", "fraud"));
  CHECK(contributions().empty() == disabled);
  server().flush_all();
  track(Fixture::track_event("a", "fraud", 1000));
  view(Fixture::view_event("a", "fraud"));
  for (const std::string& key : all_keys()) CHECK(key.find("added") == key.npos);
}

TEST_CASE_METHOD(RevertFixture, "a revert updates ranks and buckets at once and invalidates lists",
                 "[contributions]") {
  const UnixSeconds date = wall_now() - seconds{3600};
  put(item("a", date));
  put(item("b", date));
  for (int i = 0; i < 5; ++i) {
    track(report("a", "fraud", 1000, "s" + std::to_string(i)));
    view(seen("a", "fraud", "f" + std::to_string(i)));
  }
  for (const char* id : {"a", "b"}) {
    for (const char* visitor : {"x", "y"}) {
      track(report(id, visitor, 1000));
      view(seen(id, visitor));
    }
  }
  track(report("b", "z", 1000));
  view(seen("b", "z"));
  CHECK(ids(engagement_query()) == std::vector<std::string>{"a", "b"});
  CHECK(ids(accumulate_query()) == std::vector<std::string>{"a", "b"});
  const auto epoch = text(command("GET", keys().epoch()));
  revert();
  CHECK(ids(engagement_query()) == std::vector<std::string>{"b", "a"});
  CHECK(ids(accumulate_query()) == std::vector<std::string>{"b", "a"});
  const std::string bucket = keys().partition(0).current_bucket(date.time_since_epoch().count() / 3600);
  CHECK(*score(bucket, "a") == Approx(stats("a").views_total));
  CHECK(*score(bucket, "b") > *score(bucket, "a"));
  CHECK(text(command("GET", keys().epoch())) != epoch);
}
