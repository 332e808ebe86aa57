// Sixteen streams: what holds for one stream holds for each, and for all together.
#include <random>

#include "core/recorder/stream.h"
#include "core/recorder/write_batch.h"
#include "tests/recorder/fanout_fixture.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/error_of.h"
#include "tests/support/repeat_count.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr unsigned kPartitions = 16;

struct PartitionFixture : FanoutFixture {
  PartitionFixture() {
    use_partitions(kPartitions);
    reopen();
  }
  std::int64_t length(unsigned partition) {
    return command("XLEN", keys().partition(partition).stream()).integer().value_or(-1);
  }
  unsigned partition_of(const std::string& id) { return keys().partition_of(id); }
  // Items i0 …, some in each partition.
  void put_some(const std::string& title, int count = 160) {
    std::vector<items::Item> many;
    for (int i = 0; i < count; ++i) many.push_back(item("i" + std::to_string(i), title));
    put_many(many);
  }
  Names followed() {
    Names rows;
    const auto database =
        database::Database::open(settings.recorder.database, database::Database::Mode::kRead);
    REQUIRE(database);
    REQUIRE((*database)->readers().for_each_follow([&](const readers::Follow& each) {
      rows.push_back(each.reader.str() + " " + each.author.str());
      return Result<void>();
    }));
    std::sort(rows.begin(), rows.end());
    return rows;
  }
};

}  // namespace

TEST_CASE_METHOD(PartitionFixture, "each entry is in the stream of its item, reader or author",
                 "[recorder]") {
  std::set<unsigned> of_items;
  for (int i = 0; i < 40; ++i) {
    const std::string id = "i" + std::to_string(i);
    put(item(id, "Title"));
    of_items.insert(partition_of(id));
  }
  CHECK(of_items.size() > 4);
  const unsigned reader = partition_of("reader"), author = partition_of("author");
  REQUIRE(reader != author);
  std::map<unsigned, std::int64_t> before;
  for (unsigned g = 0; g < kPartitions; ++g) before[g] = length(g);
  CHECK(before[partition_of("i0")] > 0);
  follow("reader", "author");
  publish({"i0"}, "author");
  unfollow("reader", "author");
  for (unsigned g = 0; g < kPartitions; ++g) {
    INFO(g);
    CHECK(length(g) - before[g] == (g == reader ? 2 : g == author ? 1 : 0));
  }
}

// The last change of a reader wins, in whatever order the streams are read, and whenever the
// recorder is killed.
TEST_CASE_METHOD(PartitionFixture,
                 "the last change of each reader and item wins, over kills between any streams",
                 "[recorder][long]") {
  const auto seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); };
  settings.recorder.batch_size = 16 * (1 + below(4));
  std::set<std::string> following;
  for (int round = 0; round < repeat_count(8, 40); ++round) {
    start_process();
    for (int i = 0; i < 120; ++i) {
      const std::string reader = "r" + std::to_string(below(12)), author = "a" + std::to_string(below(4));
      if (following.erase(reader + " " + author) == 0) {
        follow(reader, author);
        following.insert(reader + " " + author);
      } else {
        unfollow(reader, author);
      }
      const std::string id = "i" + std::to_string(below(20));
      if (below(3) == 0)
        remove(id);
      else
        put(item(id, "Write " + std::to_string(1000 * round + i)));
    }
    kill_process();
  }
  start();
  REQUIRE(becomes_idle());
  stop();
  CHECK(followed() == Names(following.begin(), following.end()));
  check_all();
}

// Simulates a kill while the nodes are queried one after the other.
TEST_CASE_METHOD(PartitionFixture,
                 "entries acknowledged in some streams only are repeated from the others, and none is lost",
                 "[recorder]") {
  start();
  REQUIRE(becomes_idle());
  stop();
  put_some("Old");
  auto database = database::Database::open(settings.recorder.database, database::Database::Mode::kWrite);
  REQUIRE(database);
  recorder::Lease mine(keys(), milliseconds(0));
  REQUIRE(mine.acquire(redis, (*database)->database_id(), *(*database)->stored_fencing_token()));
  REQUIRE((*database)->set_fencing_token(mine.token()));
  recorder::Streams streams(settings, endpoint);
  REQUIRE(streams.claim_pending());
  REQUIRE(streams.has_claimed_all());
  std::size_t read = 0, acknowledged = 0;
  for (;;) {
    const auto batch = streams.read();
    REQUIRE(batch);
    if (batch->empty()) break;
    read += batch->entries.size();
    REQUIRE(recorder::write_batch(**database, *batch, keys()));
    recorder::EntryBatch some;
    for (const recorder::EntryId& each : batch->entries) {
      if (each.stream % 2 == 0) some.entries.push_back(each);
    }
    acknowledged += some.entries.size();
    REQUIRE(streams.acknowledge(mine, some));
  }
  CHECK(read == 160);
  CHECK(acknowledged > 0);
  CHECK(pending() == static_cast<std::int64_t>(read - acknowledged));
  for (unsigned g = 0; g < kPartitions; g += 2) CHECK(length(g) == 0);
  for (unsigned g = 0; g < kPartitions; ++g) {
    INFO(g);
    CHECK_FALSE((*database)->last_entry(keys().partition(g).hash_tag()).value_or("").empty());
  }
  put_some("New", 80);
  database->reset();
  // The index lacks the acknowledged entries, because this test wrote the database alone.
  std::filesystem::remove_all(settings.search.index);
  start();
  REQUIRE(becomes_idle());
  CHECK(eventually([&] { return shared->report.entries.load() == read - acknowledged + 80; }));
  CHECK(backlog() == 0);
  CHECK(pending() == 0);
  check_database();
  CHECK(recorded_data_loss().empty());
}

TEST_CASE_METHOD(PartitionFixture, "a node that lost its streams is detected, and its items are restored",
                 "[recorder]") {
  const std::string lost = "i3", kept = "i4";
  REQUIRE(partition_of(lost) != partition_of(kept));
  start();
  put_some("Before");
  REQUIRE(becomes_idle());
  if (GENERATE(false, true)) stop();
  settings.recorder.rebuild = "auto";
  const redis::Keys names = keys();
  const redis::PartitionKeys lost_keys = names.partition_for(lost);
  redis::Pipeline lose;
  lose.add("MULTI").add("DEL", lost_keys.stream()).add("DEL", lost_keys.fence());
  for (const auto& [id, each] : model) {
    if (partition_of(id) == partition_of(lost)) lose.add("DEL", keys().item(id));
  }
  lose.add("EXEC");
  REQUIRE(redis.call_all(lose));
  if (!thread.joinable()) start();
  REQUIRE(eventually([&] { return run_sync(items->get(ItemId::trusted(lost))).has_value(); }));
  REQUIRE(eventually([&] { return recorded_data_loss().empty(); }));
  put(item(lost, "After"));
  put(item(kept, "After"));
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(PartitionFixture,
                 "each stream has its share of the limit, and a full one does not block others",
                 "[recorder]") {
  settings.recorder.stream_max_len = 5 * kPartitions - 3;  // 5 for each
  reopen();
  Names same, other;  // ids in one partition, and in the others
  for (int i = 0; same.size() < 6; ++i) {
    const std::string id = "x" + std::to_string(i);
    (partition_of(id) == partition_of("x0") ? same : other).push_back(id);
  }
  for (std::size_t i = 0; i < 5; ++i) put(item(same[i], "Title"));
  CHECK(length(partition_of("x0")) == 5);
  const auto full = [&](const auto& outcome) { return !outcome && outcome.error().reason == "stream_full"; };
  CHECK(full(run_sync(items->put(item(same[5], "Title")))));
  CHECK(full(run_sync(items->put_many({item(other[0], "Title"), item(same[5], "Title")}))));
  CHECK(full(run_sync(follows->follow(ReaderId::trusted(same[0]), AuthorId::trusted("a")))));
  CHECK(full(run_sync(follows->unfollow(ReaderId::trusted(same[0]), AuthorId::trusted("a")))));
  CHECK(length(partition_of("x0")) == 5);
  put(item(other[0], "Title"));
  follow(other[0], same[0]);  // a reader in another partition
  CHECK(full(run_sync(follows->publish(AuthorId::trusted(same[0]), {ItemId::trusted("y")}))));
  start();
  REQUIRE(becomes_idle());
  put(item(same[5], "Title"));
  // A batch that is too uneven for any stream is accepted by an empty one.
  REQUIRE(becomes_idle());
  std::vector<items::Item> uneven;
  for (const std::string& each : same) uneven.push_back(item(each, "Again"));
  put_many(uneven);
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(PartitionFixture, "nothing is acknowledged in any stream with an older token",
                 "[recorder]") {
  recorder::Lease first(keys(), milliseconds(0)), second(keys());
  REQUIRE(recorder::create_groups(redis, keys()));
  REQUIRE(first.acquire(redis, "d", 0));
  put_some("Title");
  settings.recorder.batch_size = 10000;
  recorder::Streams streams(settings, endpoint);
  REQUIRE(streams.claim_pending());
  const auto batch = streams.read();
  REQUIRE(batch);
  REQUIRE(batch->entries.size() == 160);
  REQUIRE(second.acquire(redis, "d", 0));
  for (unsigned g = 0; g < kPartitions; ++g) {  // each fence on its own
    INFO(g);
    recorder::EntryBatch some;
    for (const recorder::EntryId& each : batch->entries) {
      if (each.stream == g) some.entries.push_back(each);
    }
    REQUIRE_FALSE(some.empty());
    const auto refused = streams.acknowledge(first, some);
    REQUIRE_FALSE(refused);
    CHECK(error_of(refused).reason == "lease_lost");
    CHECK(length(g) == static_cast<std::int64_t>(some.entries.size()));
  }
  CHECK(pending() == 160);
  // A missing fence is treated like another process's fence.
  command("DEL", keys().partition(3).fence());
  const auto unknown = streams.acknowledge(second, *batch);
  REQUIRE_FALSE(unknown);
  CHECK(error_of(unknown).reason == "redis_no_group");
  CHECK(length(3) > 0);
  CHECK(length(4) == 0);
  REQUIRE(second.acquire(redis, "d", 0));
  REQUIRE(streams.acknowledge(second, *batch));
  CHECK(backlog() == 0);
}

// The lease's node was reset or emptied, and the database is an old copy.
TEST_CASE_METHOD(PartitionFixture, "a lease that is behind its fences moves beyond them", "[recorder]") {
  start();
  put_some("Before");
  REQUIRE(becomes_idle());
  stop();
  command("SET", keys().partition(7).fence(), 1000);
  start();
  put_some("After");
  REQUIRE(becomes_idle());
  check_all();
  CHECK(command("GET", keys().partition(7).fence()).string() == "1001");
  CHECK(command("GET", keys().partition(0).fence()).string() == "1001");
  CHECK(command("HGET", keys().recorder_lease(), "token").string() == "1001");
}

TEST_CASE_METHOD(PartitionFixture, "a job pins its own stream only", "[recorder]") {
  constexpr unsigned kPinned = 3;
  REQUIRE(recorder::create_groups(redis, keys()));
  put_some("Title");
  recorder::Streams streams(settings, endpoint);
  REQUIRE(streams.claim_pending());
  do REQUIRE(streams.read(recorder::Streams::ReadMode::kNonBlocking));
  while (!streams.is_drained());
  const auto given = streams.last_generated_ids();
  REQUIRE(given);
  streams.pin({{{kPinned, "1-1"}, AuthorId::trusted("author"), {}, 0, "job"}});
  for (unsigned g = 0; g < kPartitions; ++g) {
    INFO(g);
    CHECK(streams.is_delivered({g, (*given)[g]}) == (g != kPinned));
  }
}
