#include "core/async/request_trace.h"

#include <atomic>
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

TEST_CASE("A trace follows its request through its coroutines", "[trace]") {
  std::array<AsyncEvent<int>, 2> gates;
  std::array<RequestTrace, 2> traces;
  std::array<int, 2> results{};
  std::atomic<PackedPhase> published{0};
  for (std::size_t i = 0; i < 2; ++i) {
    traces[i].route = static_cast<std::uint16_t>(7 + i);
    traces[i].published_phase = &published;
    Task<void> task = outer(gates[i], results[i]);
    task.set_trace(traces[i]);
    spawn(std::move(task), [](std::exception_ptr) {});
  }
  CHECK(published == pack_phase(RequestPhase::kRank, 8));
  gates[0].fire(1);  // does not affect the other request; the worker publishes the one that runs
  CHECK(traces[0].phase == RequestPhase::kRender);
  CHECK(traces[1].phase == RequestPhase::kRank);
  CHECK(published == pack_phase(RequestPhase::kRender, 7));
  gates[1].fire(2);
  CHECK(traces[1].phase == RequestPhase::kRender);
  CHECK(results == std::array{1, 2});
  CHECK(phase_of(published) == RequestPhase::kRender);
  CHECK(route_of(published) == 8);
}

TEST_CASE("Coroutines that belong to no request have no trace", "[trace]") {
  AsyncEvent<int> gate;
  int result = 0;
  spawn(outer(gate, result), [](std::exception_ptr) {});
  gate.fire(5);
  CHECK(result == 5);
}

TEST_CASE("A trace records the awaited commands, the round trips and their duration", "[trace]") {
  TemporaryDirectory directory;
  std::atomic<bool> requested{false};
  std::promise<void> allow_reply;
  auto reply_allowed = allow_reply.get_future().share();
  FakeRedis server((directory.path() / "r").string(),
                   [&](const FakeRedis::Command& command, int) -> std::string {
                     if (command[0] != "EVALSHA") return "+PONG\r\n";
                     requested = true;
                     reply_allowed.wait();
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

  RequestTrace trace;
  redis::Pipeline pipeline;
  pipeline.script(kScripts[0]).key("hot:pv:{a}");
  std::atomic<bool> done{false};
  thread.run_on_loop([&] {
    auto run_commands = [](redis::RedisConnection& redis, const redis::Pipeline& commands) -> Task<void> {
      auto replies = co_await redis.run(commands);
      CHECK(replies.has_value());
    };
    Task<void> task = run_commands(*connection, pipeline);
    task.set_trace(trace);
    spawn(std::move(task), [&](std::exception_ptr) { done = true; });
  });
  while (!requested) std::this_thread::yield();
  CHECK(thread.run_on_loop([&] {
    return trace.awaited_commands == nullptr ? "" : command_name(*trace.awaited_commands, kScripts);
  }) == "track");
  CHECK(thread.run_on_loop([&] { return trace.phase; }) == RequestPhase::kRedis);
  allow_reply.set_value();
  while (!done) std::this_thread::yield();
  CHECK(trace.awaited_commands == nullptr);
  CHECK(trace.round_trips == 1);
  CHECK(trace.redis_time > 0us);
  CHECK(trace.phase == RequestPhase::kRender);
  CHECK(thread.run_on_loop([&] { return connection->counters().latency.sum_us; }) >=
        static_cast<std::uint64_t>(trace.redis_time.count()));
  thread.run_on_loop([&] { connection.reset(); });
  thread.stop();
}

TEST_CASE("A command's name contains none of its arguments", "[trace]") {
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

TEST_CASE("A duration falls into the bucket of the smallest bound that is not below it", "[histogram]") {
  Histogram histogram;
  for (const std::int64_t bound : kDurationBounds) histogram.add(std::chrono::microseconds(bound));
  for (std::size_t i = 0; i < kDurationBounds.size(); ++i) CHECK(histogram.counts[i] == 1);
  CHECK(histogram.counts.back() == 0);
  histogram.add(std::chrono::microseconds(kDurationBounds.back() + 1));
  CHECK(histogram.counts.back() == 1);
  CHECK(duration_bucket(0us) == 0);
  CHECK(duration_bucket(51us) == 1);
}
