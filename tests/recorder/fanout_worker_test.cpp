// Published items reach every follower once.
#include "core/recorder/fanout_worker.h"

#include <cstdio>
#include <random>
#include <set>

#include "tests/recorder/fanout_fixture.h"

using namespace freshet;
using namespace freshet::test;

TEST_CASE("a published item reaches every follower once, and its job reports this", "[recorder]") {
  FanoutFixture f;
  f.add_followers(345);
  const auto job = f.publish({"a", "b"});
  CHECK(f.job_summary(job) == "queued 0/345 0");
  CHECK(f.backlog() == 1);
  f.start();
  REQUIRE(f.finishes(job));
  REQUIRE(f.becomes_idle());
  CHECK(f.job_summary(job) == "done 345/345 0");
  for (int i = 0; i < 345; ++i) CHECK(f.timeline("r" + std::to_string(i)) == Names{"a", "b"});
  CHECK(*f.command("TTL", f.keys().job(job)).integer() > 86400 - 60);
  const auto ttl = *f.command("TTL", f.timeline_key("r7")).integer();
  CHECK(ttl > f.settings.timeline.ttl.count() - 60);
  CHECK(ttl <= f.settings.timeline.ttl.count());
  CHECK(f.pending() == 0);
  // No timeline has it twice, and another push does not extend a timeline's TTL.
  f.command("EXPIRE", f.timeline_key("r7"), 1000);
  const double place = f.score("r7", "a");
  const auto again = f.publish({"a", "c"});
  REQUIRE(f.finishes(again));
  CHECK(f.timeline("r7") == Names{"a", "b", "c"});
  CHECK(f.score("r7", "a") == place);
  CHECK(*f.command("TTL", f.timeline_key("r7")).integer() <= 1000);
}

TEST_CASE("a timeline stays within its limit", "[recorder]") {
  FanoutFixture f;
  f.settings.timeline.max_items = 3;
  f.reopen();
  f.add_followers(2);
  f.start();
  REQUIRE(f.finishes(f.publish({"a", "b", "c", "d", "e"})));
  CHECK(f.timeline("r0") == Names{"c", "d", "e"});
  REQUIRE(f.finishes(f.publish({"f"})));
  CHECK(f.timeline("r0") == Names{"d", "e", "f"});
  CHECK(*f.command("ZSCORE", f.timeline_key("r0"), redis::kTrimmedMark).number() < 0);
}

TEST_CASE("a timeline key of another type fails alone; the others get the item", "[recorder]") {
  FanoutFixture f;
  f.add_followers(250);
  f.command("SET", f.timeline_key("r3"), "no timeline");
  f.command("SET", f.timeline_key("r249"), "no timeline");
  const auto job = f.publish({"a"});
  f.start();
  REQUIRE(f.finishes(job));
  CHECK(f.job_summary(job) == "done 248/250 2");
  CHECK(f.readers_with("a", 250).size() == 248);
  CHECK(f.command("GET", f.timeline_key("r3")).string() == "no timeline");
}

TEST_CASE("a job that can never succeed is marked as failed, and the following jobs continue", "[recorder]") {
  FanoutFixture f;
  f.command("SET", f.keys().followers("eve"), "no list");
  f.command("XADD", f.keys().partition(0).stream(), "*", "op", "fanout", "author", "eve", "items", "a",
            "upto", "9", "job", "never");
  f.add_followers(5);
  const auto job = f.publish({"a"});
  f.start();
  REQUIRE(f.finishes(job));
  REQUIRE(f.becomes_idle());
  CHECK(f.field("never", "state") == "failed");
  CHECK(f.job_summary(job) == "done 5/5 0");
}

TEST_CASE("malformed job entries are skipped", "[recorder]") {
  FanoutFixture f;
  const auto bad = [&](auto... fields) {
    f.command("XADD", f.keys().partition(0).stream(), "*", "op", "fanout", fields...);
  };
  bad("author", "a\tb", "items", "x", "upto", "1", "job", "j");
  bad("author", "a", "items", "", "upto", "1", "job", "j");
  bad("author", "a", "items", "x\x1f\n", "upto", "1", "job", "j");
  bad("author", "a", "items", "x", "upto", "-1", "job", "j");
  bad("author", "a", "items", "x", "upto", "many", "job", "j");
  bad("author", "a", "items", "x", "upto", "1");
  f.command("XADD", f.keys().partition(0).stream(), "*", "op", "follow", "reader", "r", "author", "a");
  f.command("XADD", f.keys().partition(0).stream(), "*", "op", "unfollow", "reader", "r", "author", "");
  f.start();
  REQUIRE(f.becomes_idle());
  CHECK(eventually([&] { return f.shared->report.malformed.load() == 8; }));
}

TEST_CASE("a reader who unfollows before their turn gets nothing, a new follower gets a back-fill",
          "[recorder]") {
  FanoutFixture f;
  f.add_followers(150);
  const auto job = f.publish({"a"});
  for (int i = 0; i < 150; i += 2) f.unfollow("r" + std::to_string(i));
  f.follow("new");
  f.follow("r0");  // follows again
  CHECK(f.timeline("new") == Names{"a"});
  f.command("ZREM", f.timeline_key("r0"), "a");  // read and removed
  f.start();
  REQUIRE(f.finishes(job));
  CHECK(f.job_summary(job) == "done 75/75 0");
  std::set<int> odd;
  for (int i = 1; i < 150; i += 2) odd.insert(i);
  CHECK(f.readers_with("a", 150) == odd);
  CHECK(f.timeline("new") == Names{"a"});
}

TEST_CASE("readers who follow and unfollow while jobs run have exactly the items of those they follow",
          "[recorder]") {
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  FanoutFixture f;
  std::mt19937 random(seed);
  const auto below = [&](int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); };
  constexpr int kReaders = 400, kItems = 20;  // as many as a back-fill
  f.add_followers(kReaders);
  std::vector<bool> follows(kReaders, true);
  f.start();
  for (int item = 0; item < kItems; ++item) {
    f.publish({"i" + std::to_string(item)});
    for (int i = 0; i < 60; ++i) {
      const int who = below(kReaders);
      const std::string reader = "r" + std::to_string(who);
      follows[static_cast<std::size_t>(who)] ? f.unfollow(reader) : f.follow(reader);
      follows[static_cast<std::size_t>(who)] = !follows[static_cast<std::size_t>(who)];
    }
  }
  REQUIRE(f.becomes_idle());
  for (int item = 0; item < kItems; ++item) {
    const auto have = f.readers_with("i" + std::to_string(item), kReaders);
    for (int who = 0; who < kReaders; ++who) {
      INFO("item " << item << ", reader " << who);
      CHECK(have.contains(who) == follows[static_cast<std::size_t>(who)]);
    }
  }
}

TEST_CASE("jobs run in order of publication", "[recorder]") {
  FanoutFixture f;
  f.add_followers(500);
  f.add_followers(500, "bob");
  const auto first = f.publish({"a"}), second = f.publish({"b"}, "bob"), third = f.publish({"c", "a2"});
  f.start();
  REQUIRE(f.finishes(third));
  CHECK(f.job_summary(first) == "done 500/500 0");
  CHECK(f.job_summary(second) == "done 500/500 0");
  for (int i = 0; i < 500; ++i) CHECK(f.timeline("r" + std::to_string(i)) == Names{"a", "b", "c", "a2"});
}

TEST_CASE("between the steps of a job, the recorder processes other entries", "[recorder]") {
  FanoutFixture f;
  f.settings.recorder.batch_size = 1;
  f.add_followers(1000);
  f.command("CONFIG", "SET", "slowlog-max-len", 100000);
  f.command("CONFIG", "SET", "slowlog-log-slower-than", 0);
  f.command("SLOWLOG", "RESET");
  const auto job = f.publish({"a"});
  f.interact("somebody", "x", 1);
  const auto entries = f.command("XRANGE", f.keys().partition(0).stream(), "-", "+");
  const std::string entry(redis::string_at(entries[1], 0));
  f.start();
  REQUIRE(f.finishes(job));
  f.command("CONFIG", "SET", "slowlog-log-slower-than", -1);
  const auto log = f.command("SLOWLOG", "GET", -1);
  constexpr std::size_t kIds =
      8;  // of EVALSHA: the acknowledged entries start here; the last delivered one comes before
  std::vector<std::size_t> steps, acknowledged, blocked;  // newest first
  for (std::size_t i = 0; i < log.size(); ++i) {
    const auto words = log[i][3];
    const auto has = [&](std::string_view word, std::size_t from = 0) {
      for (std::size_t k = from; k < words.size(); ++k) {
        if (redis::string_at(words, k) == word) return true;
      }
      return false;
    };
    if (has(f.keys().followers("ann")) && has("ZRANGEBYSCORE")) steps.push_back(i);
    if (has(scripts::kStreamAck.sha1) && has(entry, kIds)) acknowledged.push_back(i);
    if (has("XREADGROUP") && has("BLOCK")) blocked.push_back(i);
  }
  REQUIRE(steps.size() == 11);
  REQUIRE(acknowledged.size() == 1);
  CHECK(acknowledged.front() < steps.back());
  CHECK(acknowledged.front() > steps.front());
  for (const auto each : blocked) CHECK((each < steps.front() || each > steps.back()));
}

TEST_CASE("an erasure is done once no job keeps the reader's entries in the stream", "[recorder]") {
  FanoutFixture f;
  f.add_followers(3000);
  const auto job = f.publish({"a"});
  f.interact("to-be-forgotten", "x", 1);
  f.command("HSET", f.keys().job("e"), "state", "queued");
  f.command("XADD", f.keys().partition(0).stream(), "*", "op", "erase", "reader", "to-be-forgotten", "job",
            "e");
  f.start();
  std::string before;
  REQUIRE(eventually([&] {
    const bool erased = f.field("e", "state") == "done";
    if (erased) before = f.field(job, "state");
    return erased;
  }));
  CHECK(before == "done");
  CHECK(f.command("XRANGE", f.keys().partition(0).stream(), "-", "+").size() == 0);
}

TEST_CASE("one job pushes to ten thousand followers", "[recorder]") {
  FanoutFixture f;
  f.add_followers(10000);
  f.start();
  REQUIRE(f.becomes_idle());
  const auto began = std::chrono::steady_clock::now();
  const auto job = f.publish({"a"});
  REQUIRE(f.finishes(job));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("10,000 followers: %.2f s\n", took.count());
  CHECK(f.job_summary(job) == "done 10000/10000 0");
  CHECK(f.readers_with("a", 10000).size() == 10000);
}

TEST_CASE("above fanout.max_push nothing is pushed, and readers pull the item", "[recorder]") {
  FanoutFixture f;
  f.settings.fanout.max_push_followers = 9;
  f.reopen();
  f.add_followers(10);
  const auto job = f.publish({"a"});
  CHECK(f.job_summary(job) == "done 0/0 0");
  CHECK(f.backlog() <= 0);
  CHECK(f.readers_with("a", 10).empty());
  const auto highest = f.command("ZSCORE", f.keys().pull_outbox("ann"), "a").number().value_or(-1);
  CHECK(highest > 0);
  CHECK(f.command("ZSCORE", f.keys().pull_authors(), "ann").number() == highest);
  CHECK(f.command("ZSCORE", f.keys().outbox("ann"), "a").number().has_value());
}

TEST_CASE("follows are recorded in order and once", "[recorder]") {
  FanoutFixture f;
  f.start();
  f.follow("r", "ann");
  f.follow("r", "bob");
  f.follow("r", "bob");
  f.follow("s", "ann");
  f.unfollow("r", "ann");
  f.follow("s", "bob");
  f.unfollow("s", "bob");
  f.follow("s", "bob");
  f.unfollow("nobody", "ann");
  REQUIRE(f.becomes_idle());
  const auto database =
      database::Database::open(f.settings.recorder.database, database::Database::Mode::kRead);
  REQUIRE(database);
  Names rows;
  REQUIRE((*database)->readers().for_each_follow([&](const readers::Follow& each) {
    rows.push_back(each.reader.str() + " " + each.author.str());
    CHECK(wall_now() - each.at < seconds{60});
    return Result<void>();
  }));
  std::sort(rows.begin(), rows.end());
  CHECK(rows == Names{"r bob", "s ann", "s bob"});
  CHECK(f.shared->report.malformed.load() == 0);
}
