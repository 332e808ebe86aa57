#include "scripts/ctl/backup/rebuild_redis.h"

#include <catch2/catch.hpp>

#include "core/base/fingerprint.h"
#include "core/recorder/consumer_groups.h"
#include "core/recorder/restore_readers.h"
#include "core/recorder/stream.h"
#include "core/timeline/follow_store.h"
#include "scripts/ctl/backup/reconcile.h"
#include "scripts/ctl/doctor/doctor.h"
#include "tests/support/error_of.h"
#include "tests/support/store_fixture.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace {

// A Redis and a database with items that Redis lacks.
struct RebuildRedisFixture : Fixture {
  TemporaryDirectory directory;
  std::unique_ptr<database::Database> database;
  RebuildRedisOptions options;

  explicit RebuildRedisFixture(int count) {
    open();
    options.quiet = true;
    auto opened =
        database::Database::open((directory.path() / "d").string(), database::Database::Mode::kWrite);
    REQUIRE(opened);
    database = std::move(*opened);
    REQUIRE(database->begin());
    for (int i = 0; i < count; ++i) REQUIRE(database->put_item(item(i, "of the database")));
    REQUIRE(database->commit());
  }
  static items::Item item(int number, const std::string& title) {
    items::Item made;
    made.id = ItemId::trusted("i" + std::to_string(number));
    made.title = title;
    made.tags = {TagName::trusted("t")};
    made.published_at = UnixSeconds{seconds{1700000000 + number}};
    return made;
  }
  Result<std::int64_t> rebuild() {
    const auto done = rebuild_redis(redis, *database, settings, options);
    if (!done) return tl::unexpected(done.error());
    return done->items;
  }
  std::string title(int number) {
    const auto found = run_sync(items->get(item(number, "").id));
    return found ? found->title : std::string(found.error().reason);
  }
  std::int64_t integer(const std::string& command, const std::string& key) {
    redis::Pipeline ask;
    ask.add(command, key);
    const auto replies = redis.call(ask);
    REQUIRE(replies);
    return *replies->front().integer();
  }
};

}  // namespace

TEST_CASE("an empty Redis gets every item of the database without new stream entries", "[ctl]") {
  RebuildRedisFixture fixture(1234);
  CHECK(fixture.rebuild() == 1234);
  for (const int each : {0, 499, 500, 1233}) CHECK(fixture.title(each) == "of the database");
  CHECK(fixture.integer("SCARD", redis::Keys("").partition(0).tagged_items("t")) == 1234);
  CHECK(fixture.integer("XLEN", "recorder:stream") == 0);
}

TEST_CASE("a Redis with items is refused unless forced, and is then overwritten", "[ctl]") {
  RebuildRedisFixture fixture(2);
  REQUIRE(run_sync(fixture.items->put(RebuildRedisFixture::item(1, "of Redis"))));
  const auto refused = fixture.rebuild();
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "has_items");
  CHECK(fixture.title(0) == "unknown_item");
  CHECK(fixture.title(1) == "of Redis");
  fixture.options.force = true;
  CHECK(fixture.rebuild() == 2);
  CHECK(fixture.title(1) == "of the database");
}

TEST_CASE("a recorded data loss is repaired without overwriting later writes, and then cleared", "[ctl]") {
  RebuildRedisFixture fixture(3);
  const redis::Keys keys("");
  REQUIRE(fixture.database->begin());
  REQUIRE(fixture.database->put_last_entry("", "1-1"));
  REQUIRE(fixture.database->commit());
  const bool noted = GENERATE(false, true);  // recorded by the recorder; else found by the rebuild
  if (noted) REQUIRE(recorder::recreate_groups_after_loss(fixture.redis, keys));
  REQUIRE(run_sync(fixture.items->put(RebuildRedisFixture::item(1, "of Redis"))));
  const auto before = collect_item_facts(fixture.redis, *fixture.database, fixture.settings);
  REQUIRE(before);
  CHECK((before->items == 3 && before->missing == 2 && (before->data_lost_at > 0) == noted));
  CHECK(fixture.rebuild() == 2);
  CHECK(fixture.title(1) == "of Redis");
  CHECK(fixture.title(2) == "of the database");
  CHECK(recorder::recorded_data_loss(fixture.redis, keys) == "");
  CHECK(recorder::has_groups(fixture.redis, keys) == true);  // the recorder has no loss to record
  const auto after = collect_item_facts(fixture.redis, *fixture.database, fixture.settings);
  REQUIRE(after);
  CHECK((after->items == 3 && after->missing == 0 && after->data_lost_at == 0));
  CHECK(error_of(fixture.rebuild()).reason == "has_items");
}

TEST_CASE("an item deleted since the data loss does not come back", "[ctl]") {
  RebuildRedisFixture fixture(3);
  REQUIRE(run_sync(fixture.items->remove(RebuildRedisFixture::item(1, "").id)));
  CHECK(fixture.rebuild() == 2);
  CHECK(fixture.title(0) == "of the database");
  CHECK(fixture.title(1) == "unknown_item");
  CHECK(collect_item_facts(fixture.redis, *fixture.database, fixture.settings)->missing == 0);
}

TEST_CASE("counters without an item do not prevent a rebuild", "[ctl]") {
  RebuildRedisFixture fixture(1);
  REQUIRE(run_sync(fixture.hot->track(RebuildRedisFixture::track_event("stranger", "anna", 1000))));
  CHECK(fixture.rebuild() == 1);
}

TEST_CASE("follows are restored in both directions without published items", "[ctl]") {
  RebuildRedisFixture fixture(1);
  const redis::Keys keys("");
  fixture.settings.fanout.max_push_followers = 0;
  timeline::RedisFollowStore follows(fixture.redis, fixture.settings, keys, [] { return "j"; });
  const ReaderId here = ReaderId::trusted("here");
  const AuthorId ann = AuthorId::trusted("ann");
  REQUIRE(run_sync(follows.follow(here, ann)));  // Redis still has this one
  REQUIRE(run_sync(follows.publish(ann, {ItemId::trusted("a")})));
  REQUIRE(fixture.database->begin());
  for (int i = 0; i < 1200; ++i) {
    const auto reader = ReaderId::trusted("r" + std::to_string(i));
    REQUIRE(fixture.database->readers().put_follow({reader, ann, UnixSeconds{seconds{100 + i}}}));
  }
  REQUIRE(fixture.database->readers().put_follow({here, ann, UnixSeconds{seconds{50}}}));
  REQUIRE(fixture.database->readers().put_follow({here, AuthorId::trusted("bob"), UnixSeconds{seconds{50}}}));
  REQUIRE(fixture.database->commit());
  for (int again = 0; again < 2; ++again) {
    const auto restored =
        recorder::restore_readers(fixture.redis, *fixture.database, fixture.settings, wall_now());
    REQUIRE(restored);
    CHECK(restored->follows == (again == 0 ? 1201 : 0));
  }
  redis::Pipeline ask;
  ask.add("ZCOUNT", keys.followers("ann"), "(0", "+inf").add("ZSCORE", keys.followers("bob"), "here");
  ask.add("ZSCORE", keys.followed_authors("r7"), "ann").add("ZSCORE", keys.pull_outbox("ann"), "a");
  ask.add("ZSCORE", keys.followed_authors("here"), "ann").add("EXISTS", keys.timeline("follow", "r7"));
  const auto replies = *fixture.redis.call(ask);
  CHECK(*replies[0].integer() == 1201);
  CHECK(!replies[1].is_nil());
  CHECK(*replies[2].string() == *replies[3].string());
  CHECK(*replies[4].string() == "0");  // still to be pulled
  CHECK(*replies[5].integer() == 0);
}

TEST_CASE("readers get back their newest rows of the database, except expired ones", "[ctl]") {
  RebuildRedisFixture fixture(1);
  fixture.settings.interactions.max_kept = 700;
  const std::int64_t now = wall_now().time_since_epoch().count();
  const auto at = [](std::int64_t second) { return UnixSeconds{seconds{second}}; };
  database::ReaderRows& rows = fixture.database->readers();
  const ReaderId many = ReaderId::trusted("many"), few = ReaderId::trusted("few");
  REQUIRE(fixture.database->begin());
  for (int i = 0; i < 2000; ++i) {
    const auto item = ItemId::trusted("i" + std::to_string(i % 1500));
    REQUIRE(rows.put_interaction({many, item, readers::Interaction::kLike, at(now - 3000 + i), {}}));
  }
  const auto old = ItemId::trusted("old");
  REQUIRE(rows.put_interaction({few, old, readers::Interaction::kPost, at(now - 200 * 86400), {}}));
  REQUIRE(rows.put_interaction({few, old, readers::Interaction::kView, at(now - 100 * 86400), {}}));
  REQUIRE(rows.put_dismissal({few, old, "seen", {}}, at(now - 80 * 86400)));
  REQUIRE(rows.put_dismissal({few, ItemId::trusted("older"), "", {}}, at(now - 91 * 86400)));
  REQUIRE(fixture.database->commit());
  const auto restore = [&] {
    return recorder::restore_readers(fixture.redis, *fixture.database, fixture.settings, at(now));
  };
  const auto restored = restore();
  REQUIRE(restored);
  CHECK(restored->dismissals == 1);

  const redis::Keys keys("");
  redis::Pipeline ask;
  ask.add("ZCARD", keys.interactions("many")).add("ZSCORE", keys.interactions("many"), "l:i499");
  ask.add("ZSCORE", keys.interactions("many"), "l:i1300").add("ZSCORE", keys.interactions("many"), "l:i1299");
  ask.add("ZRANGE", keys.interactions("few"), 0, -1).add("ZRANGE", keys.not_interested("few"), 0, -1);
  ask.add("HGET", keys.not_interested_reasons("few"), "old").add("TTL", keys.interactions("few"));
  ask.add("TTL", keys.not_interested_reasons("few"))
      .add("EXISTS", keys.partition(0).stream())
      .add("GET", keys.archived_interactions("many"));
  auto replies = *fixture.redis.call(ask);
  CHECK(*replies[0].integer() == 700);
  CHECK(replies[1].string() == std::to_string(now - 3000 + 1999));
  CHECK(replies[2].string() == std::to_string(now - 3000 + 1300));
  CHECK(replies[3].is_nil());
  REQUIRE(replies[4].size() == 1);
  CHECK(replies[4][0].string() == "v:old");
  REQUIRE(replies[5].size() == 1);
  CHECK(replies[6].string() == "seen");
  CHECK(*replies[7].integer() <= 80 * 86400);
  CHECK(*replies[7].integer() > 79 * 86400);
  CHECK(*replies[8].integer() > 9 * 86400);
  CHECK(*replies[9].integer() == 0);
  // Older interactions stay excluded.
  const auto earlier = parse_fingerprints(replies[10].string().value_or(""));
  for (int i = 500; i < 1300; ++i) CHECK(earlier.contains(fingerprint("i" + std::to_string(i))));

  // A newer entry in Redis is kept.
  ask.clear();
  ask.add("ZADD", keys.interactions("few"), now, "v:old")
      .add("EXPIRE", keys.interactions("few"), 180 * 86400);
  REQUIRE(fixture.redis.call(ask));
  REQUIRE(restore());
  ask.clear();
  ask.add("ZSCORE", keys.interactions("few"), "v:old").add("TTL", keys.interactions("few"));
  replies = *fixture.redis.call(ask);
  CHECK(replies[0].string() == std::to_string(now));
  CHECK(*replies[1].integer() > 179 * 86400);
}

TEST_CASE("a restore records the entries of all streams and no stream reuses an id", "[ctl]") {
  RebuildRedisFixture fixture(0);
  fixture.partitions = 16;
  fixture.settings.redis.url = "redis+cluster://127.0.0.1:1";  // key names as in a cluster, on one server
  fixture.open();
  const redis::Keys keys = fixture.keys();
  for (int i = 0; i < 40; ++i)
    REQUIRE(run_sync(fixture.items->put(RebuildRedisFixture::item(i, "not yet recorded"))));
  const auto job_of = keys.partition_for("reader"),
             ahead = keys.partition((keys.partition_of("reader") + 1) % 16);
  fixture.command("XADD", job_of.stream(), "*", "op", "erase", "reader", "reader", "job", "j");
  const std::string last = "99999999999999-7";
  REQUIRE(fixture.database->put_last_entry(ahead.hash_tag(), last));
  REQUIRE(reconcile(fixture.redis, *fixture.database, fixture.settings, server().endpoint()));
  CHECK(fixture.database->item_count() == 40);
  const auto given = recorder::Streams(fixture.settings, server().endpoint()).last_generated_ids();
  REQUIRE(given);
  for (const redis::PartitionKeys& each : keys.partitions()) {
    INFO(each.stream());
    CHECK(fixture.integer("XLEN", each.stream()) == (each.stream() == job_of.stream() ? 1 : 0));
  }
  for (unsigned g = 0; g < 16; ++g)
    CHECK(((*given)[g] == last) == (keys.partition(g).stream() == ahead.stream()));
  CHECK(recorder::has_groups(fixture.redis, keys) == true);
}
