// Rebuilding hot:rank from the counters.
#include "core/hot/engagement.h"
#include "core/redis/schema.h"
#include "tests/support/error_of.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct RebuildFixture : Fixture {
  RebuildFixture() { open(); }
  std::map<std::string, double> ranks() {
    std::map<std::string, double> out;
    for (const auto& each : scan_rank(engagement_query())) out[each.item.str()] = each.score;
    return out;
  }
  void traffic(int articles) {
    for (int i = 0; i < articles; ++i) {
      auto event = track_event("a" + std::to_string(i), "v", i * 100);
      event.published_at = now() - seconds{i * 1000};
      track(event);
    }
  }
  hot::RebuildResult rebuild() {
    auto out = run_sync(hot::rebuild_ranks(redis, settings, keys()));
    REQUIRE(out);
    return *out;
  }
  hot::ModelList outdated_ranks() { return *run_sync(hot::outdated_ranks(redis, settings, keys())); }
};

}  // namespace

TEST_CASE_METHOD(RebuildFixture, "a rebuilt rank equals the one built by counting", "[rebuild]") {
  auto& f = *this;
  f.traffic(40);
  const auto before = f.ranks();
  REQUIRE(before.size() == 40);
  f.command("DEL", f.keys().partition(0).rank(hot::kEngagementModel),
            f.keys().partition(0).rank_versions(hot::kEngagementModel));
  const auto done = f.rebuild();
  CHECK(done.items == 40);
  CHECK(done.ranked == 40);
  CHECK(f.ranks() == before);
  f.rebuild();
  CHECK(f.ranks() == before);
  CHECK_FALSE(f.exists(f.keys().partition(0).staging_rank(hot::kEngagementModel)));
  CHECK_FALSE(f.exists(f.keys().rank_rebuild_lock()));
}

TEST_CASE_METHOD(RebuildFixture, "a changed half-life is detected, and a rebuild applies it", "[rebuild]") {
  auto& f = *this;
  CHECK(f.outdated_ranks().empty());  // an empty rank adopts the parameters
  f.traffic(20);
  CHECK(f.outdated_ranks().empty());
  f.settings.engagement.half_life = seconds{7200};
  f.settings.engagement.dwell_weight = 0.01;
  f.open();
  CHECK(f.outdated_ranks() == hot::ModelList{&hot::kEngagementModel});
  f.rebuild();
  CHECK(f.outdated_ranks().empty());
  for (const auto& [id, key] : f.ranks()) {
    const auto terms = f.stats(id);
    const double base =
        hot::base_score({terms.pv, terms.uv, terms.dwell_sum_ms, terms.dwell_count}, f.settings.engagement);
    CHECK(key == Approx(hot::rank_key(base, terms.decay_start, seconds{7200})).epsilon(1e-14));
  }
}

TEST_CASE_METHOD(RebuildFixture, "a changed half-life rebuilds the rank of its model only", "[rebuild]") {
  auto& f = *this;
  f.traffic(20);
  const auto engagement = f.keys().partition(0).rank(hot::kEngagementModel);
  const auto trending = f.keys().partition(0).rank(hot::kTrendingModel);
  f.command("ZADD", engagement, 1, "kept");  // a rebuild would remove it
  const std::string before(f.command("ZSCORE", trending, "a1").text());
  f.settings.trending.half_life = seconds{900};
  f.open();
  REQUIRE(f.outdated_ranks() == hot::ModelList{&hot::kTrendingModel});
  // Until then, events are ranked by engagement, and trending waits.
  const double ranked = f.ranks().at("a0");
  f.track(track_event("a0", "w", 0));
  CHECK(f.ranks().at("a0") > ranked);
  CHECK(f.exists(f.keys().partition(0).unranked()));
  REQUIRE(run_sync(hot::rebuild_ranks(redis, settings, keys(), f.outdated_ranks())));
  CHECK(f.outdated_ranks().empty());
  CHECK(f.ranks().contains("kept"));
  CHECK(f.command("ZSCORE", trending, "a1").text() != before);
  CHECK(f.command("ZCARD", trending).integer() == 20);
  CHECK(f.command("HKEYS", f.keys().rank_meta()).size() == 3);  // two ranks and the schema
  CHECK_FALSE(f.exists(f.keys().partition(0).staging_rank(hot::kTrendingModel)));
  CHECK_FALSE(f.exists(f.keys().partition(0).unranked()));
}

TEST_CASE_METHOD(RebuildFixture, "a rank's parameters contain everything that it depends on", "[rebuild]") {
  CHECK(hot::rank_parameters(hot::kEngagementModel, settings) == "1 3 0.002 0 0 86400");
  CHECK(hot::rank_parameters(hot::kTrendingModel, settings) == "3600");
  settings.engagement.dwell_prior_views = 5;
  settings.engagement.dwell_prior_ms = 30000;
  CHECK(hot::rank_parameters(hot::kEngagementModel, settings) == "1 3 0.002 5 30000 86400");
}

TEST_CASE_METHOD(RebuildFixture, "hidden items and items without counters are not in a rebuilt rank",
                 "[rebuild]") {
  auto& f = *this;
  f.traffic(3);
  auto hidden = f.item("a1", f.now());
  hidden.hidden = true;
  f.put(hidden);
  f.command("ZADD", f.keys().partition(0).rank(hot::kEngagementModel), 99999, "ghost");
  const auto done = f.rebuild();
  CHECK(done.items == 3);
  CHECK(done.ranked == 2);
  CHECK(f.ranks().size() == 2);
}

TEST_CASE_METHOD(RebuildFixture, "data of another schema version is rejected", "[rebuild]") {
  auto& f = *this;
  const auto fits = [&] { return run_sync(redis::check_schema(f.redis, f.keys())); };
  CHECK(fits());
  const bool by_event = GENERATE(true, false);
  by_event ? f.traffic(1) : static_cast<void>(f.outdated_ranks());
  CHECK(fits());
  f.command("HSET", f.keys().rank_meta(), "schema", redis::kSchemaVersion + 1);
  CHECK(error_of(fits()).reason == "schema_mismatch");
  f.command("HDEL", f.keys().rank_meta(), "schema");
  f.command("HSET", f.keys().rank_meta(), "formula", "1 3 0.002 86400");
  REQUIRE_FALSE(fits());
  CHECK(error_of(fits()).detail.find("schema 1") != std::string::npos);
}

TEST_CASE_METHOD(RebuildFixture, "two rebuilds cannot run at the same time", "[rebuild]") {
  auto& f = *this;
  f.command("SET", f.keys().rank_rebuild_lock(), 1, "EX", 60);
  const auto refused = run_sync(hot::rebuild_ranks(f.redis, f.settings, f.keys()));
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "rebuild_running");
}

TEST_CASE_METHOD(Fixture, "a prefix with glob characters matches only its own items", "[rebuild]") {
  settings.redis.key_prefix = "site[1]*:";
  open();
  track(track_event("a", "v", 0));
  settings.redis.key_prefix = "site1x:";
  open();
  track(track_event("b", "v", 0));
  settings.redis.key_prefix = "site[1]*:";
  open();
  const auto done = run_sync(hot::rebuild_ranks(redis, settings, keys()));
  REQUIRE(done);
  CHECK(done->items == 1);
  CHECK(ids(engagement_query()) == std::vector<std::string>{"a"});
}

TEST_CASE_METHOD(Fixture, "thousands of items are rebuilt in batches", "[rebuild]") {
  redis::Pipeline fill;
  for (int i = 0; i < 3000; ++i)
    fill.add("HSET", keys().article("n" + std::to_string(i)), "pv", i + 1, "first", unix_s(now()), "renewed",
             unix_s(now()), "v", 1);
  REQUIRE(redis.call(fill));
  const auto done = run_sync(hot::rebuild_ranks(redis, settings, keys()));
  REQUIRE(done);
  CHECK(done->ranked >= 3000);
  CHECK(command("ZCARD", keys().partition(0).rank(hot::kEngagementModel)).integer().value_or(0) == 3000);
}
