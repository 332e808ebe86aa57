#include "core/async/stage.h"

#include <catch2/catch.hpp>
#include <future>

#include "core/async/task.h"
#include "core/redis/command_name.h"
#include "core/redis/redis_connection.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop_thread.h"

using namespace freshet;
using namespace freshet::test;
using namespace std::chrono_literals;

namespace {

constexpr std::array kScripts{redis::Script{"track", "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"}};

Task<int> inner(Event<int>& gate) {
  co_await doing(Doing::kRank);
  const int got = co_await gate.wait();
  co_await doing(Doing::kRender);
  co_return got;
}

Task<void> outer(Event<int>& gate, int& result) {
  co_await doing(Doing::kParse);
  result = co_await inner(gate);
}

}  // namespace

TEST_CASE("A stage follows its request through the coroutines that work for it", "[stage]") {
  std::array<Event<int>, 2> gates;
  std::array<Stage, 2> stages;
  std::array<int, 2> results{};
  std::atomic<StageWord> shown{0};
  for (std::size_t i = 0; i < 2; ++i) {
    stages[i].route = static_cast<std::uint16_t>(7 + i);
    stages[i].shown = &shown;
    Task<void> task = outer(gates[i], results[i]);
    task.work_for(stages[i]);
    spawn(std::move(task), [](std::exception_ptr) {});
  }
  CHECK(shown == stage_word(Doing::kRank, 8));
  gates[0].fire(1);  // the other one is not touched, and the worker shows who runs
  CHECK(stages[0].doing == Doing::kRender);
  CHECK(stages[1].doing == Doing::kRank);
  CHECK(shown == stage_word(Doing::kRender, 7));
  gates[1].fire(2);
  CHECK(stages[1].doing == Doing::kRender);
  CHECK(results == std::array{1, 2});
  CHECK(doing_of(shown) == Doing::kRender);
  CHECK(route_of(shown) == 8);
}

TEST_CASE("Work for no request notes nothing", "[stage]") {
  Event<int> gate;
  int result = 0;
  spawn(outer(gate, result), [](std::exception_ptr) {});
  gate.fire(5);
  CHECK(result == 5);
}

TEST_CASE("A stage knows the commands it waits for, their number and how long they took", "[stage]") {
  TemporaryDirectory directory;
  std::atomic<bool> asked{false};
  std::promise<void> answer;
  auto may_answer = answer.get_future().share();
  FakeRedis server((directory.path() / "r").string(),
                   [&](const FakeRedis::Command& command, int) -> std::string {
                     if (command[0] != "EVALSHA") return "+PONG\r\n";
                     asked = true;
                     may_answer.wait();
                     return ":1\r\n";
                   });
  LoopThread thread;
  std::unique_ptr<redis::RedisConnection> connection;
  thread.on_loop([&] {
    redis::LinkOptions options;
    options.endpoint.unix_path = (directory.path() / "r").string();
    options.timeout = 20s;
    connection = std::make_unique<redis::RedisConnection>(thread.loop(), options, kScripts);
    connection->connect();
  });
  while (!thread.on_loop([&] { return connection->ready(); })) std::this_thread::yield();

  Stage stage;
  redis::Pipeline pipeline;
  pipeline.script(kScripts[0]).key("hot:pv:{a}");
  std::atomic<bool> done{false};
  thread.on_loop([&] {
    auto ask = [](redis::RedisConnection& redis, const redis::Pipeline& commands) -> Task<void> {
      auto replies = co_await redis.run(commands);
      CHECK(replies.has_value());
    };
    Task<void> task = ask(*connection, pipeline);
    task.work_for(stage);
    spawn(std::move(task), [&](std::exception_ptr) { done = true; });
  });
  while (!asked) std::this_thread::yield();
  CHECK(thread.on_loop([&] {
    return stage.awaited == nullptr ? "" : command_name(*stage.awaited, kScripts);
  }) == "track");
  CHECK(thread.on_loop([&] { return stage.doing; }) == Doing::kRedis);
  answer.set_value();
  while (!done) std::this_thread::yield();
  CHECK(stage.awaited == nullptr);
  CHECK(stage.round_trips == 1);
  CHECK(stage.in_redis > 0us);
  CHECK(stage.doing == Doing::kRender);
  CHECK(thread.on_loop([&] { return connection->counters().latency.sum_us; }) >=
        static_cast<std::uint64_t>(stage.in_redis.count()));
  thread.on_loop([&] { connection.reset(); });
  thread.stop();
}

TEST_CASE("A command's name has none of its arguments", "[stage]") {
  redis::Pipeline pipeline;
  CHECK(command_name(pipeline, kScripts).empty());
  pipeline.add("HMGET", "user:secret", "a", "b");
  CHECK(command_name(pipeline, kScripts) == "HMGET");
  pipeline.add("GET", "x").add("GET", "y");
  CHECK(command_name(pipeline, kScripts) == "HMGET +2");
  pipeline.clear();
  pipeline.script(kScripts[0]);
  CHECK(command_name(pipeline, kScripts) == "track");
  CHECK(command_name(pipeline, {}) == "EVALSHA");
  pipeline.clear();
  pipeline.raw("nonsense");
  CHECK(command_name(pipeline, kScripts).empty());
}

TEST_CASE("A duration falls into the bucket whose bound it does not exceed", "[histogram]") {
  Histogram histogram;
  for (const std::int64_t bound : kDurationBounds) histogram.add(std::chrono::microseconds(bound));
  for (std::size_t i = 0; i < kDurationBounds.size(); ++i) CHECK(histogram.counts[i] == 1);
  CHECK(histogram.counts.back() == 0);
  histogram.add(std::chrono::microseconds(kDurationBounds.back() + 1));
  CHECK(histogram.counts.back() == 1);
  CHECK(duration_bucket(0us) == 0);
  CHECK(duration_bucket(51us) == 1);
}
