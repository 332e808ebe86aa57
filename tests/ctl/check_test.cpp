#include "scripts/ctl/check/check.h"

#include <catch2/catch.hpp>
#include <limits>

#include "core/timeline/follow_store.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace {

// A Redis populated by the stores: two items with tracked events and views, one of them put, with a
// tag.
struct PopulatedRedis : Fixture {
  Findings findings;
  CheckOptions options;
  CheckTotals totals;

  explicit PopulatedRedis(const std::string& prefix = "") {
    settings.redis.key_prefix = prefix;
    open();
    options.quiet = true;
    items::Item item;
    item.id = ItemId::trusted("1");
    item.title = "one";
    item.tags = {TagName::trusted("swift")};
    item.published_at = wall_now() - seconds{3600};
    REQUIRE(run_sync(items->put(item)));
    for (const std::string id : {"1", "2"}) {
      REQUIRE(run_sync(hot->track(track_event(id, "anna", 1000))));
      REQUIRE(run_sync(hot->track(track_event(id, "bert", 2000))));
      REQUIRE(run_sync(hot->view(view_event(id, "anna"))));
    }
    flush_deferred();
    // Ages the articles by three seconds, more than the grace period for rank updates.
    for (const std::string id : {"1", "2"}) {
      const std::string v = field(id, "v"),
                        aged = std::to_string(redis::parse_or_zero<std::int64_t>(v) - 3'000'000);
      run("HSET", keys().article(id), "v", aged);
    }
  }
  template <class... Args>
  void run(const Args&... args) {
    redis::Pipeline command;
    command.add(args...);
    const auto replies = redis.call(command);
    REQUIRE(replies);
    REQUIRE_FALSE(replies->front().is_error());
  }
  void check() {
    findings = Findings();
    const auto found = check_redis(redis, settings, options, findings);
    REQUIRE(found);
    totals = *found;
  }
  // Expects exactly one finding, of this kind.
  void expect_finding(const FindingKind& kind) {
    check();
    INFO(findings.text());
    CHECK(findings.count(kind) == 1);
    CHECK(findings.remaining(Level::kViolation) + findings.remaining(Level::kSuspicious) +
              findings.remaining(Level::kStale) ==
          1);
  }
  // Like expect_finding(), and --sweep removes it.
  void expect_swept(const FindingKind& kind) {
    expect_finding(kind);
    options.sweep = true;
    check();
    CHECK(findings.swept_count(kind) == 1);
    options.sweep = false;
    check();
    INFO(findings.text());
    CHECK(findings.text().empty());
  }
};

}  // namespace

TEST_CASE("keys written by the stores have no findings, with any prefix", "[ctl]") {
  for (const char* prefix : {"", "site1:"}) {
    PopulatedRedis filled(prefix);
    filled.run("SET", "foreign:key", "1");
    if (*prefix == '\0') filled.run("DEL", "foreign:key");
    filled.check();
    CAPTURE(prefix);
    INFO(filled.findings.text());
    CHECK(filled.findings.text().empty());
    CHECK(filled.totals.items == 2);
    CHECK(filled.totals.pv == 4);
    CHECK(filled.totals.views == 6);  // page views and views
  }
}

TEST_CASE("an unexpected total is a violation", "[ctl]") {
  PopulatedRedis filled;
  filled.options.expect_pv = 4;
  filled.options.expect_views = 6;
  filled.check();
  CHECK(filled.findings.text().empty());
  filled.options.expect_pv = 5;
  filled.expect_finding(kinds::kWrongTotal);
}

TEST_CASE("an unknown key, a wrong type and a wrong TTL are violations", "[ctl]") {
  PopulatedRedis filled;
  const auto keys = filled.keys();
  SECTION("unknown") {
    filled.run("SET", "hot:article:1:2", "1");
    filled.expect_finding(kinds::kUnknownKey);
  }
  SECTION("wrong type") {
    filled.run("DEL", keys.uv_hll("2"));
    filled.run("SADD", keys.uv_hll("2"), "x");
    filled.run("EXPIRE", keys.uv_hll("2"), "100");
    filled.expect_finding(kinds::kWrongType);
  }
  SECTION("no TTL") {
    filled.run("PERSIST", keys.uv_hll("1"));
    filled.expect_finding(kinds::kNoTtl);
  }
  SECTION("an item that the site put has a TTL") {
    filled.run("EXPIRE", keys.item("1"), "100");
    filled.expect_finding(kinds::kUnexpectedTtl);
  }
  SECTION("an article that the site put has a TTL") {
    filled.run("EXPIRE", keys.article("1"), "100");
    filled.expect_finding(kinds::kUnexpectedTtl);
  }
  SECTION("an article that was only viewed has no TTL") {
    filled.run("PERSIST", keys.article("2"));
    filled.expect_finding(kinds::kNoTtl);
  }
  SECTION("a permanent key has a TTL") {
    filled.run("EXPIRE", keys.partition(0).rank(hot::kEngagementModel), "100");
    filled.expect_finding(kinds::kUnexpectedTtl);
  }
}

TEST_CASE("contradictory counters are a violation", "[ctl]") {
  PopulatedRedis filled;
  const auto keys = filled.keys();
  SECTION("more dwell than the sessions can have") {
    filled.run("HINCRBY", keys.article("1"), "ms", "600000");
    filled.check();
    CHECK(filled.findings.count(kinds::kBadCounter) == 1);
    CHECK(filled.findings.count(kinds::kMisplaced) == 1);
  }
  SECTION("a counter is missing") {
    filled.run("HDEL", keys.article("1"), "renewed");
    filled.check();
    CHECK(filled.findings.count(kinds::kBadCounter) == 1);
  }
  SECTION("a total that is not a number") {
    filled.run("HSET", keys.article("1"), "total", "nan");
    filled.expect_finding(kinds::kBadScore);
  }
}

TEST_CASE("a rank score that differs from the counters is a violation after a grace period", "[ctl]") {
  PopulatedRedis filled;
  const auto keys = filled.keys();
  SECTION("differs in the last bits") {
    filled.run("ZINCRBY", keys.partition(0).rank(hot::kEngagementModel), "0.00000001", "1");
    filled.expect_finding(kinds::kMisplaced);
  }
  SECTION("removed from the rank") {
    filled.run("ZREM", keys.partition(0).rank(hot::kEngagementModel), "2");
    filled.expect_finding(kinds::kMisplaced);
  }
  SECTION("views rank") {
    filled.run("ZINCRBY", keys.partition(0).rank(hot::kViewsModel), "1", "2");
    filled.expect_finding(kinds::kMisplaced);
  }
  SECTION("not while the update may be in flight") {
    filled.run("ZINCRBY", keys.partition(0).rank(hot::kEngagementModel), "1", "1");
    filled.run("HSET", keys.article("1"), "v", (unix_s(wall_now()) + 60) * 1'000'000);
    filled.check();
    CHECK(filled.findings.text().empty());
  }
  SECTION("not if the rank is full of higher scores") {
    filled.settings.list.max_members = 1;
    const bool first = *filled.stats("1").position(hot::kEngagementModel).rank == 1;
    filled.run("ZREM", keys.partition(0).rank(hot::kEngagementModel), first ? "2" : "1");
    filled.check();
    CHECK(filled.findings.count(kinds::kMisplaced) == 0);
  }
}

TEST_CASE("more visitors than page views are suspicious, not a violation", "[ctl]") {
  PopulatedRedis filled;
  filled.run("HSET", filled.keys().article("1"), "uv", "20");
  filled.check();
  CHECK(filled.findings.count(kinds::kUvAbovePv) == 1);
}

TEST_CASE("scores that are not finite or not positive and ranks over their limit are violations", "[ctl]") {
  PopulatedRedis filled;
  const auto keys = filled.keys();
  SECTION("an infinite rank key") {
    filled.run("ZADD", keys.partition(0).rank(hot::kEngagementModel), "-inf", "2");
    filled.check();
    CHECK(filled.findings.count(kinds::kBadScore) == 1);
  }
  SECTION("a rank key in the far future") {
    filled.run("ZADD", keys.partition(0).rank(hot::kEngagementModel), "100000", "2");
    filled.check();
    CHECK(filled.findings.count(kinds::kBadScore) == 1);
  }
  SECTION("an accumulated score of zero") {
    filled.run("ZADD", keys.partition(0).rank(hot::kViewsModel), "0", "2");
    filled.check();
    CHECK(filled.findings.count(kinds::kBadScore) == 1);
  }
  SECTION("rank size") {
    filled.settings.list.max_members = 1;
    filled.check();
    CHECK(filled.findings.count(kinds::kOverLimit) ==
          hot::kModels.size() + 1);  // each rank and hot:published
  }
}

TEST_CASE("an hour with a total above its bucket bound is a violation", "[ctl]") {
  PopulatedRedis filled;
  const std::int64_t hour = wall_now().time_since_epoch().count() / 3600 - 1;
  filled.run("ZADD", filled.keys().partition(0).current_bucket(hour), "50", "1");
  filled.expect_finding(kinds::kBucketBound);
}

TEST_CASE("a hidden item in a rank is a violation", "[ctl]") {
  PopulatedRedis filled;
  filled.run("ZADD", filled.keys().partition(0).hidden(), "+inf", "1");
  filled.expect_finding(kinds::kHiddenListed);
}

TEST_CASE("an item under embargo may be in a rank", "[ctl]") {
  PopulatedRedis filled;
  const auto now = wall_now().time_since_epoch().count();
  filled.run("ZADD", filled.keys().partition(0).hidden(), std::to_string(now + 3600) + ".5", "1");
  filled.check();
  CHECK(filled.findings.count(kinds::kHiddenListed) == 0);
}

TEST_CASE("contradictions in timelines and follows are found", "[ctl]") {
  PopulatedRedis filled("p:");
  const auto keys = filled.keys();
  filled.settings.timeline.max_items = 3;
  timeline::RedisFollowStore follows(filled.redis, filled.settings, keys, [] { return "j"; });
  const ReaderId reader = ReaderId::trusted("r");
  const AuthorId author = AuthorId::trusted("ann");
  REQUIRE(run_sync(follows.follow(reader, author)));
  for (const char* item : {"a", "b", "c", "d", "e"})
    REQUIRE(run_sync(follows.publish(author, {ItemId::trusted(item)})));
  REQUIRE(run_sync(follows.follow(ReaderId::trusted("s"), author)));
  const std::string timeline = keys.timeline("follow", "s");
  const std::string top = filled.text(filled.command("ZRANGE", timeline, -1, -1, "WITHSCORES")[1]);
  SECTION("no contradiction") {
    filled.check();
    INFO(filled.findings.text());
    CHECK(filled.findings.text().empty());
    CHECK(filled.command("ZCARD", timeline).integer() == 4);  // including a mark
  }
  SECTION("a score above the top mark") {
    filled.run("ZADD", timeline, "XX", std::to_string(redis::to_int(top) + 1), "e");
    filled.expect_finding(kinds::kBadTimeline);
  }
  SECTION("no top mark") {
    filled.run("ZREM", timeline, redis::kHighestMark);
    filled.expect_finding(kinds::kBadTimeline);
  }
  SECTION("a score that a double cannot represent exactly") {
    filled.run("ZADD", timeline, "9007199254740992", "e", "-9007199254740992", redis::kHighestMark);
    filled.expect_finding(kinds::kBadTimeline);
  }
  SECTION("a cut mark above the lowest score") {
    filled.run("ZADD", timeline, "-" + top, redis::kTrimmedMark);
    filled.expect_finding(kinds::kBadTimeline);
  }
  SECTION("an id without a score") {
    filled.run("ZREM", timeline, "d");
    filled.run("ZADD", timeline, "0", "x");
    filled.expect_finding(kinds::kBadTimeline);
  }
  SECTION("too many items") {
    filled.settings.timeline.max_items = 2;
    filled.expect_finding(kinds::kOverLimit);
  }
  SECTION("no TTL") {
    filled.run("PERSIST", timeline);
    filled.expect_finding(kinds::kNoTtl);
  }
  SECTION("a follow that the author lacks") {
    filled.run("ZREM", keys.followers("ann"), "r");
    filled.expect_finding(kinds::kOneSidedFollow);
  }
  SECTION("a follow that the reader lacks") {
    filled.run("DEL", keys.followed_authors("s"));
    filled.expect_finding(kinds::kOneSidedFollow);
  }
}

TEST_CASE("members left by expired data are stale and swept", "[ctl]") {
  PopulatedRedis filled;
  const auto keys = filled.keys();
  SECTION("a ranked item without counters") {
    filled.run("ZADD", keys.partition(0).rank(hot::kEngagementModel), "1", "gone");
    filled.expect_swept(kinds::kNoCounters);
  }
  SECTION("a scored item without counters") {
    filled.run("ZADD", keys.partition(0).rank(hot::kViewsModel), "1", "gone");
    filled.expect_swept(kinds::kNoCounters);
  }
  SECTION("a ranked item whose counters have expired") {
    filled.run("HSET", keys.article("1"), "renewed", unix_s(wall_now()) - 31 * 86400);
    filled.expect_swept(kinds::kNoCounters);
  }
  SECTION("a publish time of an item without counters") {
    filled.run("ZADD", keys.partition(0).published(), "1500000000", "gone");
    filled.expect_swept(kinds::kNoCounters);
  }
  SECTION("a tag's member without an item") {
    filled.run("SADD", keys.partition(0).tagged_items("swift"), "gone");
    filled.expect_swept(kinds::kNoItem);
  }
  SECTION("an hour without its bucket") {
    filled.run("ZADD", keys.partition(0).current_bucket_index(), "3", "1000");
    filled.expect_swept(kinds::kNoBucket);
  }
  SECTION("a deleted item that no longer has to be remembered") {
    filled.run("ZADD", keys.partition(0).hidden(), "1500000000", "gone");
    filled.expect_swept(kinds::kExpiredHidden);
  }
  SECTION("the staging rank of a crashed rebuild") {
    filled.run("ZADD", keys.partition(0).staging_rank(hot::kEngagementModel), "1", "1");
    filled.expect_swept(kinds::kAbandonedRebuild);
  }
  SECTION("not the staging rank of a running rebuild") {
    filled.run("ZADD", keys.partition(0).staging_rank(hot::kEngagementModel), "1", "1");
    filled.run("SET", keys.rank_rebuild_lock(), "1", "EX", "60");
    filled.check();
    CHECK(filled.findings.text().empty());
  }
}

TEST_CASE("keys and members beyond one page are all checked and swept", "[ctl]") {
  PopulatedRedis filled;
  redis::Pipeline pipeline;
  for (int i = 0; i < 2000; ++i) {
    pipeline.add("ZADD", filled.keys().partition(0).rank(hot::kEngagementModel), "1",
                 "gone" + std::to_string(i));
    pipeline.add("SET", "unknown:" + std::to_string(i), "1");
  }
  REQUIRE(filled.redis.call(pipeline));
  filled.options.sweep = true;
  filled.check();
  CHECK(filled.findings.count(kinds::kUnknownKey) == 2000);
  CHECK(filled.findings.remaining(Level::kStale) == 0);
  filled.options.sweep = false;
  filled.check();
  CHECK(filled.findings.remaining(Level::kStale) == 0);
}
