// Repartitioning keeps all data, even if the tool is killed at any point.
#include "scripts/ctl/backup/repartition.h"

#include <algorithm>

#include "core/recorder/consumer_groups.h"
#include "core/recorder/stream.h"
#include "core/redis/schema.h"
#include "scripts/ctl/check/check.h"
#include "tests/support/error_of.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

class RepartitionFixture : public Fixture {
 public:
  RepartitionFixture() {
    settings.redis.url = "redis+cluster://127.0.0.1:1";  // key names as in a cluster, on one server
    set_partitions(16);
    REQUIRE(verify_schema(redis::SchemaCheck::kInitialize));
  }
  void set_partitions(int number) {
    settings.redis.partitions = number;
    partitions = static_cast<unsigned>(number);
    open();
  }
  Result<void> verify_schema(redis::SchemaCheck asks = redis::SchemaCheck::kCheckOnly) {
    return run_sync(redis::check_schema(redis, keys(), asks));
  }
  void fill() {
    for (int i = 0; i < 120; ++i) {
      const std::string id = "a" + std::to_string(i);
      items::Item one = item(id, now() - seconds(3600 * (i % 30)));
      one.tags = {TagName::trusted("t" + std::to_string(i % 3))};
      one.hidden = i % 10 == 0;
      if (i % 10 == 1) one.published_at = now() + seconds(86400);
      put(one);
      for (int v = 0; v < i % 4; ++v) {
        track(track_event(id, "v" + std::to_string(v), 1000));
        view(view_event(id, "f" + std::to_string(v)));
      }
    }
    for (const char* const id : {"a2", "a3"}) remove(id);
    // Viewed long ago: its score outlives its counters and its bucket.
    const UnixSeconds old = now() - seconds(1000 * 3600);
    put(item("old", old));
    view(view_event("old", "f"));
    command("HSET", keys().article("old"), "viewed", 1);
    const redis::PartitionKeys group = keys().partition_for("old");
    command("DEL", group.current_bucket(unix_s(old) / kHourSeconds));
    command("ZREM", group.current_bucket_index(), unix_s(old) / kHourSeconds);
    command("ZREM", group.rank(hot::kTrendingModel), "old");
    command("HDEL", group.rank_versions(hot::kTrendingModel), "old");
    auto unverified = track_event("unknown", "v", 1000);
    unverified.admission.network = unverified.admission.wide_network = "network";
    settings.items_unknown = "count";
    track(unverified);
    mark_recorded();
  }
  // As if a recorder had read and acknowledged all entries.
  void mark_recorded() {
    const redis::Keys names = keys();
    REQUIRE(recorder::create_groups(redis, names));
    for (const redis::PartitionKeys& each : names.partitions()) command("XTRIM", each.stream(), "MAXLEN", 0);
  }
  std::string highest_last_id() {
    recorder::Streams streams(settings, server().endpoint());
    const auto each = streams.last_generated_ids();
    REQUIRE(each);
    return *std::ranges::max_element(*each, recorder::precedes);
  }
  // The last id of every stream; empty if they differ.
  std::string common_last_id() {
    recorder::Streams streams(settings, server().endpoint());
    const auto each = streams.last_generated_ids();
    if (!each || std::ranges::count(*each, each->front()) != std::ssize(*each)) return {};
    return each->front();
  }

  struct Content {
    std::vector<std::vector<std::string>> lists;
    std::map<std::string, std::map<std::string, std::string>> sets;
    bool operator==(const Content&) const = default;
  };
  Content content() {
    Content out;
    for (const std::string tag : {"", "t0", "t1"}) {
      for (const seconds window : {seconds(0), seconds(5 * 3600 + 1800)}) {
        out.lists.push_back(ids(engagement_query(window, tag)));
        out.lists.push_back(ids(accumulate_query(window, tag)));
      }
    }
    for (const redis::PartitionKeys& group : keys().partitions()) {
      for (const auto& [what, key] : std::map<std::string, std::string>{
               {"hidden", group.hidden()}, {"newest", group.newest()}, {"unlisted", group.unverified()}}) {
        const auto members = command("ZRANGE", key, 0, -1, "WITHSCORES");
        for (std::size_t i = 0; i + 1 < members.size(); i += 2)
          out.sets[what][std::string(redis::string_at(members, i))] =
              std::string(redis::string_at(members, i + 1));
      }
    }
    const auto buckets = run_sync(hot->buckets());
    REQUIRE(buckets);
    for (const auto& bucket : *buckets) {
      const auto heads = run_sync(hot->bucket_heads({bucket.name}, 0, 1000));
      REQUIRE(heads);
      for (const auto& each : *heads)
        out.sets["bucket " + std::to_string(bucket.name.hour)][each.item.str()] = std::to_string(each.total);
    }
    return out;
  }
  std::size_t count_old_keys() {
    const redis::Keys now = keys();
    std::size_t out = 0;
    for (const std::string& key : all_keys()) out += now.has_other_partition_count(key) ? 1U : 0U;
    return out;
  }
  std::string check() {
    ctl::Findings findings;
    REQUIRE(ctl::check_redis(redis, settings, {.quiet = true}, findings));
    return findings.text();
  }
};

const auto kContinue = [](std::int64_t) { return Result<void>(); };

}  // namespace

TEST_CASE_METHOD(RepartitionFixture, "repartitioning keeps all data", "[regroup]") {
  fill();
  const Content before = content();
  CHECK(before.lists.front().size() > 50);
  for (const char* const what : {"hidden", "newest", "unlisted"}) CHECK_FALSE(before.sets.at(what).empty());
  const std::string findings = check(), highest = highest_last_id();
  for (const int number : {4, 64, 2, 16}) {
    INFO(number);
    set_partitions(number);
    CHECK(count_old_keys() > 0);
    CHECK(ids(engagement_query()).empty());
    const auto done = ctl::repartition(redis, settings, kContinue);
    REQUIRE(done);
    CHECK(done->removed > 0);
    CHECK(count_old_keys() == 0);
    CHECK(content() == before);
    CHECK(recorder::has_groups(redis, keys()) == true);
    CHECK(common_last_id() == highest);
    CHECK(check() == findings);
    CHECK(verify_schema());
  }
}

TEST_CASE_METHOD(RepartitionFixture, "a killed repartition is finished by the next one", "[regroup]") {
  fill();
  const Content before = content();
  const std::string highest = highest_last_id();
  int killed = 0;
  for (int steps = 0, at = 16; steps < 200; ++steps) {
    at = at == 16 ? 4 : 16;
    set_partitions(at);
    int left = steps;
    const auto kill = [&](std::int64_t) {
      return left-- > 0 ? Result<void>() : fail(ErrorCode::kInternal, "killed");
    };
    if (ctl::repartition(redis, settings, kill)) break;
    ++killed;
    // No service starts in between, whatever its setting.
    for (const int number : {16, 4}) {
      set_partitions(number);
      REQUIRE_FALSE(verify_schema(redis::SchemaCheck::kInitialize));
    }
    set_partitions(at);
    REQUIRE(ctl::repartition(redis, settings, kContinue));
    REQUIRE(count_old_keys() == 0);
    REQUIRE(content() == before);
    REQUIRE(common_last_id() == highest);
    REQUIRE(verify_schema());
  }
  CHECK(killed > 3);
}

TEST_CASE_METHOD(RepartitionFixture, "entries pending for the recorder block a repartition", "[regroup]") {
  fill();
  const redis::Keys old = keys();
  put(item("late", now()));
  set_partitions(4);
  const auto refused = ctl::repartition(redis, settings, kContinue);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "not_recorded");
  for (const char* const word : {"pending for the recorder", "redis.partitions to 16", "freshetctl status"})
    CHECK(error_of(refused).detail.find(word) != std::string::npos);
  CHECK(count_old_keys() > 0);
  CHECK_FALSE(exists(keys().partition(0).stream()));
  set_partitions(16);
  CHECK(verify_schema());
  CHECK(command("XLEN", old.partition_for("late").stream()).integer() == 1);
  mark_recorded();
  set_partitions(4);
  CHECK(ctl::repartition(redis, settings, kContinue));
  CHECK(count_old_keys() == 0);
}

TEST_CASE_METHOD(RepartitionFixture, "check reports shared keys of other partitions", "[regroup]") {
  fill();
  const auto reported = [&] {
    ctl::Findings findings;
    ctl::CheckOptions options;
    options.quiet = true;
    REQUIRE(ctl::check_redis(redis, settings, options, findings));
    return findings.count(ctl::kinds::kOtherPartitions);
  };
  CHECK(reported() == 0);
  const redis::Keys in_4(settings.redis.key_prefix, redis::Keys::Topology::kCluster, 4);
  command("ZADD", in_4.partition(1).rank(hot::kViewsModel), 1, "a");
  command("XADD", in_4.partition(0).stream(), "*", "a", "b");
  command("ZADD", settings.redis.key_prefix + "hot:newest", 1, "a");  // as on a single Redis
  command("SADD", settings.redis.key_prefix + "tag:swift", "a");
  command("XADD", settings.redis.key_prefix + "recorder:stream", "*", "a", "b");
  CHECK(reported() == 5);
}

TEST_CASE_METHOD(RepartitionFixture, "a service with another number of partitions is told what to do",
                 "[regroup]") {
  fill();
  set_partitions(8);
  const auto other = verify_schema(redis::SchemaCheck::kInitialize);
  REQUIRE_FALSE(other);
  CHECK(error_of(other).reason == "partitions_mismatch");
  for (const char* const word : {"16 partitions", "redis.partitions is 8", "freshetctl repartition"})
    CHECK(error_of(other).detail.find(word) != std::string::npos);
  set_partitions(16);
  CHECK(verify_schema());
  command("SET", keys().partition_count_key(), redis::kRepartitioning);
  CHECK(error_of(verify_schema()).detail.find("freshetctl repartition") != std::string::npos);
  // An empty Redis accepts any number until a service starts. A standalone Redis stores none.
  server().flush_all();
  set_partitions(8);
  CHECK(verify_schema());
  CHECK_FALSE(exists(keys().partition_count_key()));
  CHECK(verify_schema(redis::SchemaCheck::kInitialize));
  set_partitions(16);
  CHECK_FALSE(verify_schema(redis::SchemaCheck::kInitialize));
  server().flush_all();
  REQUIRE(run_sync(redis::check_schema(redis, redis::Keys(""), redis::SchemaCheck::kInitialize)));
  CHECK(all_keys().empty());
}
