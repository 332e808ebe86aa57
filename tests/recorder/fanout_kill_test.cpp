// Published items reach every follower once, whatever is killed or happens between two steps.
#include <cstdio>
#include <random>
#include <set>
#include <thread>

#include "core/recorder/fanout_worker.h"
#include "tests/recorder/fanout_fixture.h"
#include "tests/support/repeat_count.h"

using namespace freshet;
using namespace freshet::test;

TEST_CASE("a job whose hash has expired starts again, which changes only the count", "[recorder]") {
  FanoutFixture f;
  f.add_followers(2000);
  const auto job = f.publish({"a"});
  int begun = 0;
  for (int i = 0; i < 200 && begun < 3 && f.field(job, "state") != "done"; ++i) {
    f.start_process();
    eventually([&] { return f.field(job, "state") == "running" || f.field(job, "state") == "done"; });
    f.kill_process();
    begun += f.field(job, "state") == "running";
    if (f.field(job, "state") == "running") f.command("DEL", f.keys().job(job));
  }
  CHECK(begun > 0);
  f.start();
  REQUIRE(f.finishes(job));
  CHECK(f.job_summary(job) == "done 2000/2000 0");
  CHECK(f.readers_with("a", 2000).size() == 2000);
}

TEST_CASE("a repeated push reaches no timeline twice, but another job does", "[recorder]") {
  FanoutFixture f;
  const std::string mine = f.timeline_key("r0");
  const auto push = [&](const std::string& item, const std::string& job) {
    redis::Pipeline command;
    timeline::append_timeline_pushes(command, f.keys(), f.settings.timeline, {mine}, {item}, job);
    const auto done = f.redis.call(command);
    REQUIRE(done);
    return done->front()[0].integer().value_or(-1);
  };
  CHECK(push("a", "4503599627370495") == 1);  // the highest number
  CHECK(f.command("TTL", mine).integer().value_or(-1) > 0);
  f.command("ZREM", mine, "a");
  CHECK(push("a", "4503599627370495") == 0);
  CHECK(f.timeline("r0").empty());
  CHECK(push("a", "4503599627370494") == 1);
  CHECK(push("b", "") == 1);  // without a job
  CHECK(f.timeline("r0") == Names{"a", "b"});
}

TEST_CASE("a reader who unfollows during a step keeps none of its items", "[recorder]") {
  FanoutFixture f;
  f.add_followers(4);
  const auto job = f.publish({"a"});
  recorder::FanoutWorker pusher(f.settings, f.server.endpoint());
  pusher.add(recorder::parse_batch(f.command("XRANGE", f.keys().partition(0).stream(), "-", "+"), 0).fanouts);
  // A paused Redis answers reads, and executes writes in order of arrival once it resumes.
  const auto waiting = [&](int count) {
    return eventually([&] {
      const auto clients = f.command("INFO", "clients");
      return clients.text().find("blocked_clients:" + std::to_string(count) + "\r") != std::string_view::npos;
    });
  };
  f.command("CLIENT", "PAUSE", 60000, "WRITE");
  std::thread leaving([&] {
    redis::BlockingRedis other(f.server.endpoint(), seconds(60), {});
    redis::Pipeline leave;
    leave.add("ZREM", f.keys().followed_authors("r1"), "ann").add("ZREM", f.keys().followers("ann"), "r1");
    CHECK(other.call_all(leave));
  });
  CHECK(waiting(1));
  Result<bool> stepped = false;
  std::thread stepping([&] { stepped = pusher.step(); });
  CHECK(waiting(2));
  f.command("CLIENT", "UNPAUSE");
  leaving.join();
  stepping.join();
  CHECK(stepped.value_or(false));
  CHECK(f.readers_with("a", 4) == std::set<int>{0, 2, 3});
  CHECK(f.job_summary(job) == "done 3/3 0");
}

TEST_CASE("two recorders on the same job, one of them outdated, serve no follower twice", "[recorder]") {
  FanoutFixture f;
  f.add_followers(350);
  const auto job = f.publish({"a"});
  const auto entries = f.command("XRANGE", f.keys().partition(0).stream(), "-", "+");
  const auto batch = recorder::parse_batch(entries, 0);
  REQUIRE(batch.fanouts.size() == 1);
  recorder::FanoutWorker one(f.settings, f.server.endpoint()), two(f.settings, f.server.endpoint());
  for (auto* each : {&one, &two}) each->add(batch.fanouts);
  std::set<int> served;
  int steps = 0;
  for (bool over = false; !over; ++steps) {
    REQUIRE(steps < 20);
    auto& next = steps % 3 == 0 ? one : two;  // each sometimes lags behind the other
    const auto stepped = next.step();
    REQUIRE(stepped);
    over = *stepped;
    const auto have = f.readers_with("a", 350);
    for (const int each : have) CHECK(served.insert(each).second);
    f.remove_from_timelines("a", have);
  }
  CHECK(steps > 4);  // some had no effect
  CHECK(served.size() == 350);
  CHECK(f.job_summary(job) == "done 350/350 0");
  for (auto* each : {&one, &two}) CHECK(each->step().value());  // both notice that it is done
  CHECK(f.readers_with("a", 350).empty());
}

TEST_CASE("a recorder killed at random moments leaves no follower out and serves none twice",
          "[recorder][long]") {
  constexpr int kReaders = 3000;
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  FanoutFixture f;
  f.use_partitions(GENERATE(1, 16));
  f.reopen();
  f.add_followers(kReaders);
  int kills = 0, within = 0;
  for (int number = 0; number < repeat_count(6, 25); ++number) {
    const std::string item = "i" + std::to_string(number);
    const auto job = f.publish({item});
    std::set<int> served;  // they also removed the item from their timeline
    // The lifetimes grow until one suffices for a step, even on a slow machine.
    for (int longest = 60000; f.field(job, "state") != "done"; longest += longest / 16) {
      f.start_process();
      std::this_thread::sleep_for(
          std::chrono::microseconds(std::uniform_int_distribution<int>(0, longest)(random)));
      f.kill_process();
      ++kills;
      within += f.field(job, "state") == "running";
      const auto have = f.readers_with(item, kReaders);
      for (const int each : have) CHECK(served.insert(each).second);
      f.remove_from_timelines(item, have);
    }
    CHECK(f.job_summary(job) == "done " + std::to_string(kReaders) + "/" + std::to_string(kReaders) + " 0");
    CHECK(served.size() == kReaders);
  }
  std::printf("%d kills (seed %u), %d within a job\n", kills, seed, within);
  CHECK(within > 0);  // otherwise the kills came at the wrong moments
  f.start();
  REQUIRE(f.becomes_idle());
  f.check_all();
}

TEST_CASE("a durable Redis that is killed during a job leaves no follower out", "[recorder][long]") {
  RedisServer own({"--appendonly", "yes", "--appendfsync", "always"});
  const auto seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  FanoutFixture f(own);
  constexpr int kReaders = 2000;
  f.add_followers(kReaders);
  f.start();
  int within = 0;
  for (int number = 0; number < repeat_count(3, 12); ++number) {
    const std::string item = "i" + std::to_string(number);
    const auto job = f.publish({item});
    std::set<int> served;
    std::string cursor;
    // Only complete scripts have left effects: the items, together with the cursor.
    const auto take = [&] {
      const auto have = f.readers_with(item, kReaders);
      for (const int each : have) CHECK(served.insert(each).second);
      f.remove_from_timelines(item, have);
    };
    for (int kill = 0; kill < 3; ++kill) {
      REQUIRE(eventually([&] { return f.field(job, "cursor") != cursor; }));  // it made progress again
      std::this_thread::sleep_for(
          std::chrono::microseconds(std::uniform_int_distribution<int>(0, 8000)(random)));
      f.restart_redis();
      cursor = f.field(job, "cursor");
      within += f.field(job, "state") == "running";
      take();
      if (f.field(job, "state") == "done") break;
    }
    REQUIRE(f.finishes(job));
    take();
    CHECK(served.size() == kReaders);
    CHECK(f.job_summary(job) == "done " + std::to_string(kReaders) + "/" + std::to_string(kReaders) + " 0");
  }
  std::printf("seed %u: %d kills of Redis within a job\n", seed, within);
  CHECK(within > 0);
  REQUIRE(f.becomes_idle());
}
