// Readers' changes are recorded, and erased on demand: no key, row, stream entry or spool file
// names the reader afterwards.
#include <atomic>
#include <cstdio>
#include <iterator>
#include <random>

#include "core/readers/personal_keys.h"
#include "core/recorder/erasure_worker.h"
#include "core/redis/spool.h"
#include "core/redis/spool_record.h"
#include "tests/recorder/fixture.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/file_bytes.h"
#include "tests/support/repeat_count.h"

using namespace freshet;
using namespace freshet::test;

namespace {

const std::string kReader = "reader-7-to-forget";
const std::string kOther = "reader-7-to-forget-not";  // has kReader as a prefix

struct ErasureFixture : Fixture {
  ErasureFixture() { std::filesystem::create_directories(settings.spool.path); }

  // Requests an erasure like core/readers/personal_data.cpp.
  void request_erasure(const std::string& reader, const std::string& job) {
    command("HSET", keys().job(job), "state", "queued");
    command("XADD", keys().partition_for(reader).stream(), "*", "op", "erase", "reader", reader, "job", job);
  }
  template <class... Args>
  std::string text(const Args&... args) {
    return std::string(command(args...).string().value_or(""));
  }
  std::string state(const std::string& job) { return text("HGET", keys().job(job), "state"); }
  // Creates one key of every pattern that refers to readers.
  void create_keys(const std::string& reader) {
    const std::string prefix = settings.redis.key_prefix;
    const std::string visitor = pseudonyms.visitor(ReaderId::trusted(reader));
    for (const redis::KeyPattern& pattern : redis::kKeyPatterns) {
      if (pattern.subject == redis::Subject::kNone) continue;
      for (const std::string& name : {reader, visitor}) {
        const std::string key = prefix + key_for(pattern, name);
        INFO(key);
        CHECK(keys().pattern_of(key) == &pattern);
        if (pattern.subject == redis::Subject::kValue)
          command("SET", key, name);
        else if (pattern.subject == redis::Subject::kMembers && pattern.type == "zset")
          command("ZADD", key, "1", name, "2", "somebody");
        else if (pattern.subject == redis::Subject::kMembers)
          command("SADD", key, name, "somebody");
        else if (pattern.type == "string")
          command("SET", key, "1");
        else if (pattern.type == "list")
          command("RPUSH", key, "item");
        else if (pattern.type == "hash")
          command("HSET", key, "item", "1");
        else
          command("ZADD", key, "1", "item");
        REQUIRE(is_present(pattern, name));
      }
    }
  }
  // Returns whether the reader's key exists, or the shared key contains the name.
  bool is_present(const redis::KeyPattern& pattern, const std::string& name) {
    const std::string key = settings.redis.key_prefix + key_for(pattern, name);
    if (pattern.subject != redis::Subject::kMembers) return command("EXISTS", key).integer() == 1;
    return pattern.type == "zset" ? command("ZSCORE", key, name).number().has_value()
                                  : command("SISMEMBER", key, name).integer() == 1;
  }
  static std::string key_for(const redis::KeyPattern& row, const std::string& name) {
    // A key whose value is the name has a hash in its own name.
    const bool is_value = row.subject == redis::Subject::kValue;
    const std::string own = is_value ? std::to_string(std::hash<std::string>()(name)) : name;
    std::string_view pattern = row.pattern;
    std::string out;
    std::size_t number = 0;
    for (; !pattern.empty(); ++number) {
      const std::size_t end = std::min(pattern.find(':'), pattern.size());
      std::string_view piece = pattern.substr(0, end);
      pattern.remove_prefix(std::min(end + 1, pattern.size()));
      const std::string id = number == row.segment ? own : "20260306";
      const std::string text = piece == "*" ? id : piece == "{*}" ? "{" + id + "}" : std::string(piece);
      out += (number > 0 ? ":" : "") + text;
    }
    return out;
  }
  // Returns every name and value in Redis.
  std::string dump_redis() {
    std::string out;
    const auto all = command("KEYS", "*");
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string key(*all[i].string());
      const std::string type(*command("TYPE", key).string());
      out += key + "\n";
      const auto add = [&](const redis::Reply& reply) {
        if (const auto text = reply.string()) out += std::string(*text) + "\n";
        for (std::size_t k = 0; k < reply.size(); ++k)
          out += std::string(reply[k].string().value_or("")) + "\n";
      };
      if (type == "string") add(command("GET", key));
      if (type == "list") add(command("LRANGE", key, 0, -1));
      if (type == "hash") add(command("HGETALL", key));
      if (type == "zset") add(command("ZRANGE", key, 0, -1));
      if (type == "set") add(command("SMEMBERS", key));
      if (type == "stream") {
        const auto entries = command("XRANGE", key, "-", "+");
        for (std::size_t k = 0; k < entries.size(); ++k) add(entries[k][1]);
      }
    }
    return out;
  }
  bool files_mention(const std::string& name) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
      if (!entry.is_regular_file()) continue;
      const std::string all = file_bytes(entry.path());
      // Ignores occurrences within the other reader's name.
      for (std::size_t at = all.find(name); at != all.npos; at = all.find(name, at + 1)) {
        if (all.compare(at, kOther.size(), kOther) != 0) return true;
      }
    }
    return false;
  }
  void expect_erased(const std::string& reader) {
    std::string left = dump_redis();
    for (std::size_t at = left.find(kOther); at != left.npos; at = left.find(kOther))
      left.erase(at, kOther.size());
    INFO(left);
    CHECK(left.find(reader) == left.npos);
    CHECK(left.find(pseudonyms.visitor(ReaderId::trusted(reader)) + "\n") == left.npos);
    CHECK(!files_mention(reader));
    for (const std::string& row : interactions()) CHECK(!row.starts_with(reader + " "));
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "interactions and dismissals are recorded in order and once", "[recorder]") {
  start();
  interact("b", "x", 20);
  interact("a", "x", 10, 'p');
  interact("b", "x", 20);
  const auto dismiss = [&](const char* reader, const char* item, const char* at) {
    command("XADD", keys().partition(0).stream(), "*", "op", "dismiss", "reader", reader, "item", item, "at",
            at, "reason", "not for me");
  };
  dismiss("a", "x", "5");
  dismiss("a", "y", "6");
  command("XADD", keys().partition(0).stream(), "*", "op", "undismiss", "reader", "a", "item", "x", "at",
          "5");
  command("XADD", keys().partition(0).stream(), "*", "op", "dismiss", "reader", "b", "item", "z", "at", "7");
  REQUIRE(becomes_idle());
  CHECK(interactions() == std::vector<std::string>{"a x p 10", "b x l 20"});
  SqliteShell shell(settings.recorder.database);
  CHECK(shell.run("SELECT group_concat(id || item || at || reason, ' ') FROM"
                  " (SELECT * FROM dismissals JOIN readers ON key = reader ORDER BY id, item)") ==
        "ay6not for me bz7");
  CHECK(shared->report.malformed.load() == 0);
}

TEST_CASE_METHOD(Fixture, "a malformed entry of a reader is skipped, the following ones are not",
                 "[recorder]") {
  const auto bad = [&](auto... fields) { command("XADD", keys().partition(0).stream(), "*", fields...); };
  bad("op", "interaction", "reader", "a\tb", "item", "x", "kind", "l", "at", "1");
  bad("op", "interaction", "reader", "a", "item", "", "kind", "l", "at", "1");
  bad("op", "interaction", "reader", "a", "item", "x", "kind", "like", "at", "1");
  bad("op", "interaction", "reader", "a", "item", "x", "kind", "?", "at", "1");
  bad("op", "interaction", "reader", "a", "item", "x", "kind", "l", "at", "yesterday");
  bad("op", "interaction", "reader", "a", "item", "x", "kind", "l", "at", "-1");
  bad("op", "interaction", "reader", "a", "item", "x", "kind", "l");
  bad("op", "dismiss", "reader", "a", "item", "x", "at", "1", "reason", "\xff");
  bad("op", "undismiss", "reader", "a");
  bad("op", "erase", "reader", "a");
  bad("op", "forget", "reader", "a", "job", "j");
  interact("a", "x", 1);
  start();
  REQUIRE(becomes_idle());
  CHECK(eventually([&] { return shared->report.malformed.load() == 11; }));
  CHECK(interactions() == std::vector<std::string>{"a x l 1"});
}

TEST_CASE_METHOD(
    ErasureFixture,
    "after the job nothing in Redis, the database or a spool names the reader; others lose nothing",
    "[recorder]") {
  settings.redis.key_prefix = GENERATE("", "p:");
  open();
  create_keys(kReader);
  create_keys(kOther);
  const std::string of_other = pseudonyms.visitor(ReaderId::trusted(kOther));
  for (int i = 0; i < 200; ++i) {
    interact(kReader, "item" + std::to_string(i), i);
    interact(kOther, "item" + std::to_string(i), i);
  }
  for (const std::string& reader : {kReader, kOther})
    command("XADD", keys().partition(0).stream(), "*", "op", "follow", "reader", reader, "author", "ann",
            "at", "1");
  REQUIRE(dump_redis().find(kReader + "\n") != std::string::npos);
  request_erasure(kReader, "j1");
  request_erasure("never-seen", "j2");
  start();
  REQUIRE(eventually([&] { return state("j1") == "done" && state("j2") == "done"; }));
  REQUIRE(becomes_idle());
  expect_erased(kReader);
  CHECK(interactions().size() == 200);
  CHECK(SqliteShell(settings.recorder.database)
            .run("SELECT group_concat(id || ' ' || author) FROM follows JOIN readers ON key = reader") ==
        kOther + " ann");
  std::size_t kept = 0;
  for (const redis::KeyPattern& each : redis::kKeyPatterns) {
    if (each.subject == redis::Subject::kNone) continue;
    for (const std::string& name : {kOther, of_other}) kept += is_present(each, name);
  }
  CHECK(kept == 2U * static_cast<std::size_t>(std::count_if(
                         redis::kKeyPatterns.begin(), redis::kKeyPatterns.end(),
                         [](const auto& each) { return each.subject != redis::Subject::kNone; })));
  const std::string epoch = keys().seen_epoch(pseudonyms.erasure(ReaderId::trusted(kReader)));
  CHECK(command("GET", epoch).string() == "1");
  CHECK(*command("TTL", epoch).integer() > 8 * 86400);
  CHECK(*command("TTL", keys().job("j1")).integer() > 0);
  CHECK(text("HGET", keys().job("j1"), "done") == text("HGET", keys().job("j1"), "total"));
  // Repeating it is harmless, and later interactions count.
  interact(kReader, "again", 5);
  request_erasure(kReader, "j3");
  REQUIRE(eventually([&] { return state("j3") == "done"; }));
  interact(kReader, "anew", 6);
  REQUIRE(becomes_idle());
  CHECK(interactions().size() == 201);
  CHECK(command("GET", epoch).string() == "2");
}

TEST_CASE_METHOD(ErasureFixture,
                 "a job waits for a spool that names the reader, other entries do not wait for it",
                 "[recorder]") {
  auto spool = redis::Spool::open(std::filesystem::path(settings.spool.path) / "1.spool", 1 << 20);
  REQUIRE(spool);
  redis::Pipeline late;
  late.add("XADD", keys().partition(0).stream(), "*", "op", "interaction", "reader", kReader, "item", "late",
           "kind", "l", "at", "9");
  REQUIRE((*spool)->append(redis::SpoolRecord("interaction").add(kReader).add("late").bytes()));
  interact(kReader, "early", 1);
  request_erasure(kReader, "j");
  put(item("a", "Put meanwhile"));
  interact(kOther, "x", 2);
  start();
  REQUIRE(eventually([&] { return shared->report.entries.load() == 3; }));
  CHECK(state("j") == "queued");
  CHECK(backlog() > 0);
  CHECK(recorded().size() == 1);
  // Replays the spool like a worker.
  REQUIRE(redis.call(late));
  const auto record = (*spool)->at((*spool)->begin());
  (*spool)->pop_to(record->next);
  REQUIRE(eventually([&] { return state("j") == "done"; }));
  REQUIRE(becomes_idle());
  expect_erased(kReader);
  CHECK(interactions() == std::vector<std::string>{kOther + " x l 2"});
}

TEST_CASE_METHOD(ErasureFixture, "a job waits for entries that left a spool just before it was found clean",
                 "[recorder]") {
  auto database = database::Database::open(settings.recorder.database, database::Database::Mode::kWrite);
  REQUIRE(database);
  recorder::Streams stream(settings, server.endpoint());
  REQUIRE(recorder::create_groups(stream.redis(), stream.keys()));
  recorder::ErasureWorker worker(settings, server.endpoint(), pseudonyms, settle_time);
  const std::atomic<bool> stop_requested{false};
  request_erasure(kReader, "j");
  while (!stream.has_claimed_all()) REQUIRE(stream.claim_pending());
  auto batch = stream.read();
  REQUIRE(batch);
  worker.add(batch->erasures);
  REQUIRE(worker.pending_count() == 1);
  REQUIRE(stream.read());  // nothing new
  interact(kReader, "late", 1);
  auto done = worker.run(**database, stream, stop_requested);
  REQUIRE(done);
  CHECK(done->empty());
  batch = stream.read();
  REQUIRE(batch);
  CHECK(batch->entries.size() == 1);
  done = worker.run(**database, stream, stop_requested);
  REQUIRE(done);
  CHECK(done->size() == 1);
}

TEST_CASE_METHOD(ErasureFixture, "a job waits for the workers' commands in flight", "[recorder]") {
  settle_time = milliseconds(3600 * 1000);
  request_erasure(kReader, "j");
  interact(kReader, "x", 1);
  start();
  REQUIRE(eventually([&] { return shared->report.entries.load() == 1; }));
  stop();
  CHECK(state("j") == "queued");
  CHECK(pending() == 1);
  settle_time = milliseconds(0);
  start();
  REQUIRE(eventually([&] { return state("j") == "done"; }));
  expect_erased(kReader);
}

TEST_CASE_METHOD(ErasureFixture, "a job that is killed at any point is restarted until it is done",
                 "[recorder][long]") {
  std::mt19937 random(std::random_device{}());
  int interrupted = 0;
  for (int round = 0; round < repeat_count(6, 25); ++round) {
    const std::string reader = kReader + std::to_string(round) + "x", job = "job" + std::to_string(round);
    create_keys(reader);
    for (int i = 0; i < 50; ++i) interact(reader, "item" + std::to_string(i), i);
    for (int i = 0; i < 3000; i += 100) {
      redis::Pipeline many;
      for (int k = i; k < i + 100; ++k) many.add("SET", "hot:pv:" + std::to_string(k), 1, "EX", 1000);
      REQUIRE(redis.call(many));
    }
    request_erasure(reader, job);
    // The job restarts after each kill. The lifetimes grow until one suffices, even on a slow
    // machine.
    for (int longest = 120000; state(job) != "done"; longest += longest / 8) {
      start_process();
      std::this_thread::sleep_for(
          std::chrono::microseconds(std::uniform_int_distribution<int>(0, longest)(random)));
      kill_process();
      interrupted += state(job) == "running";
    }
    expect_erased(reader);
  }
  std::printf("%d kills within a job\n", interrupted);
  start();
  REQUIRE(becomes_idle());
  CHECK(interactions().empty());
  CHECK(SqliteShell(settings.recorder.database).run("PRAGMA integrity_check") == "ok");
}
