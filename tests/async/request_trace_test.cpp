#include "core/async/request_trace.h"

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

Task<int> inner(AsyncEvent<int>& gate) {
  co_await set_phase(RequestPhase::kRank);
  const int got = co_await gate.wait();
  co_await set_phase(RequestPhase::kRender);
  co_return got;
}

Task<void> outer(AsyncEvent<int>& gate, int& result) {
  co_await set_phase(RequestPhase::kParse);
  result = co_await inner(gate);
}

}  // namespace

TEST_CASE("A stage follows its request through the coroutines that work for it", "[stage]") {
  std::array<AsyncEvent<int>, 2> gates;
  std::array<RequestTrace, 2> stages;
  std::array<int, 2> results{};
  std::atomic<PackedPhase> shown{0};
  for (std::size_t i = 0; i < 2; ++i) {
    stages[i].route = static_cast<std::uint16_t>(7 + i);
    stages[i].published_phase = &shown;
    Task<void> task = outer(gates[i], results[i]);
    task.set_trace(stages[i]);
    spawn(std::move(task), [](std::exception_ptr) {});
  }
  CHECK(shown == pack_phase(RequestPhase::kRank, 8));
  gates[0].fire(1);  // the other one is not touched, and the worker shows who runs
  CHECK(stages[0].phase == RequestPhase::kRender);
  CHECK(stages[1].phase == RequestPhase::kRank);
  CHECK(shown == pack_phase(RequestPhase::kRender, 7));
  gates[1].fire(2);
  CHECK(stages[1].phase == RequestPhase::kRender);
  CHECK(results == std::array{1, 2});
  CHECK(phase_of(shown) == RequestPhase::kRender);
  CHECK(route_of(shown) == 8);
}

TEST_CASE("Work for no request notes nothing", "[stage]") {
  AsyncEvent<int> gate;
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
  thread.run_on_loop([&] {
    redis::ConnectionOptions options;
    options.endpoint.unix_path = (directory.path() / "r").string();
    options.timeout = 20s;
    connection = std::make_unique<redis::RedisConnection>(thread.loop(), options, kScripts);
    connection->connect();
  });
  while (!thread.run_on_loop([&] { return connection->ready(); })) std::this_thread::yield();

  RequestTrace stage;
  redis::Pipeline pipeline;
  pipeline.script(kScripts[0]).key("hot:pv:{a}");
  std::atomic<bool> done{false};
  thread.run_on_loop([&] {
    auto ask = [](redis::RedisConnection& redis, const redis::Pipeline& commands) -> Task<void> {
      auto replies = co_await redis.run(commands);
      CHECK(replies.has_value());
    };
    Task<void> task = ask(*connection, pipeline);
    task.set_trace(stage);
    spawn(std::move(task), [&](std::exception_ptr) { done = true; });
  });
  while (!asked) std::this_thread::yield();
  CHECK(thread.run_on_loop([&] {
    return stage.awaited_commands == nullptr ? "" : command_name(*stage.awaited_commands, kScripts);
  }) == "track");
  CHECK(thread.run_on_loop([&] { return stage.phase; }) == RequestPhase::kRedis);
  answer.set_value();
  while (!done) std::this_thread::yield();
  CHECK(stage.awaited_commands == nullptr);
  CHECK(stage.round_trips == 1);
  CHECK(stage.redis_time > 0us);
  CHECK(stage.phase == RequestPhase::kRender);
  CHECK(thread.run_on_loop([&] { return connection->counters().latency.sum_us; }) >=
        static_cast<std::uint64_t>(stage.redis_time.count()));
  thread.run_on_loop([&] { connection.reset(); });
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
