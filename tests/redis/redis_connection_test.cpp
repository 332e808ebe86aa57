#include "core/redis/redis_connection.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <map>
#include <thread>

#include "tests/support/error_of.h"
#include "tests/support/fake_redis.h"
#include "tests/support/loop_thread.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::redis;
using namespace std::chrono_literals;

namespace {

constexpr std::array kScripts{Script{"one", "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"}};

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

// Answers PING, SCRIPT LOAD and ECHO as a server does.
std::string default_reply(const FakeRedis::Command& command) {
  if (command[0] == "PING") return "+PONG\r\n";
  if (command[0] == "ECHO") return bulk(command[1]);
  if (command[0] == "SCRIPT") return bulk(kScripts[0].sha1);
  return "-ERR unknown command\r\n";
}

class Fixture {
 public:
  explicit Fixture(FakeRedis::Answer answer, milliseconds timeout = 5s)
      : server_((directory_.path() / "r").string(), std::move(answer)) {
    thread_.run_on_loop([&] {
      ConnectionOptions options;
      options.endpoint.unix_path = (directory_.path() / "r").string();
      options.timeout = timeout;
      options.retry_within = 5s;
      options.breaker = {.failure_threshold = 3, .open_delay = 5ms, .closed_delay = 5ms, .max_delay = 50ms};
      connection_ = std::make_unique<RedisConnection>(thread_.loop(), options, kScripts);
      connection_->connect();
    });
  }
  ~Fixture() {
    thread_.run_on_loop([&] { connection_.reset(); });
    thread_.stop();
  }

  bool wait_ready(bool wanted = true) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (std::chrono::steady_clock::now() < deadline) {
      if (thread_.run_on_loop([&] { return connection_->ready(); }) == wanted) return true;
      std::this_thread::yield();
    }
    return false;
  }
  // Starts ECHO `text` on the loop without waiting for the reply.
  std::future<Result<std::string>> echo(std::string text) {
    auto result = std::make_shared<std::promise<Result<std::string>>>();
    auto future = result->get_future();
    thread_.run_on_loop([&] { start_echo(std::move(text), result); });
    return future;
  }
  void start_echo(std::string text, std::shared_ptr<std::promise<Result<std::string>>> result) {
    spawn(run_echo(std::move(text), std::move(result)), [](std::exception_ptr) {});
  }
  FakeRedis& server() { return server_; }
  LoopThread& thread() { return thread_; }
  RedisConnection& connection() { return *connection_; }

 private:
  Task<void> run_echo(std::string text, std::shared_ptr<std::promise<Result<std::string>>> result) {
    Pipeline pipeline;
    pipeline.add("ECHO", text);
    auto reply = co_await run_one(*connection_, pipeline);
    if (!reply) {
      result->set_value(tl::unexpected(reply.error()));
    } else {
      result->set_value(std::string(*reply->string()));
    }
  }

  TemporaryDirectory directory_;
  FakeRedis server_;
  LoopThread thread_;
  std::unique_ptr<RedisConnection> connection_;
};

Result<std::string> value(std::future<Result<std::string>> future) {
  REQUIRE(future.wait_for(10s) == std::future_status::ready);
  return future.get();
}

}  // namespace

TEST_CASE("Each awaiting coroutine gets the reply to its own command", "[redis]") {
  Fixture fixture([](const auto& command, int) { return default_reply(command); });
  REQUIRE(fixture.wait_ready());
  std::vector<std::future<Result<std::string>>> replies;
  for (int i = 0; i < 1000; ++i) replies.push_back(fixture.echo(std::to_string(i)));
  for (int i = 0; i < 1000; ++i)
    CHECK(value(std::move(replies[static_cast<std::size_t>(i)])) == std::to_string(i));
}

TEST_CASE("The commands of one loop iteration leave in one write", "[redis]") {
  Fixture fixture([](const auto& command, int) { return default_reply(command); }, 2s);
  REQUIRE(fixture.wait_ready());
  const int before = fixture.server().reads();
  std::vector<std::future<Result<std::string>>> replies;
  fixture.thread().run_on_loop([&] {
    for (int i = 0; i < 100; ++i) {
      auto result = std::make_shared<std::promise<Result<std::string>>>();
      replies.push_back(result->get_future());
      fixture.start_echo(std::to_string(i), result);
    }
  });
  for (auto& reply : replies) CHECK(value(std::move(reply)));
  CHECK(fixture.server().reads() == before + 1);
}

TEST_CASE("A command before the connection is ready fails at once without being sent", "[redis]") {
  Fixture fixture([](const auto&, int) { return std::string(); });
  const auto reply = value(fixture.echo("a"));
  REQUIRE_FALSE(reply);
  CHECK(error_of(reply).code == ErrorCode::kUnavailable);
  CHECK(error_of(reply).reason == "redis_unavailable");
}

TEST_CASE("A handshake that is not answered times out and is retried", "[redis]") {
  Fixture fixture([](const auto& command,
                     int connection) { return connection < 2 ? std::string() : default_reply(command); },
                  20ms);
  CHECK(fixture.wait_ready());
  CHECK(fixture.server().connections() >= 3);  // more if this process itself is slow
}

TEST_CASE("A handshake answered with an error does not make the connection ready", "[redis]") {
  Fixture fixture([](const auto& command, int connection) {
    return connection < 2 && command[0] == "PING" ? "-LOADING Redis is loading the dataset in memory\r\n"
                                                  : default_reply(command);
  });
  CHECK(fixture.wait_ready());
  CHECK(fixture.server().connections() == 3);
}

TEST_CASE("A deadline fails everything pending, and late replies are discarded", "[redis]") {
  std::atomic<bool> hang{true};
  std::string owed;  // used by the server's thread only
  Fixture fixture(
      [&](const auto& command, int connection) -> std::optional<std::string> {
        if (command[0] == "ECHO" && connection == 0 && hang) {
          owed += bulk(command[1]);
          return std::string();
        }
        return default_reply(command);
      },
      200ms);
  REQUIRE(fixture.wait_ready());
  auto first = fixture.echo("first");
  auto second = fixture.echo("second");
  for (auto* reply : {&first, &second}) {
    const auto got = value(std::move(*reply));
    REQUIRE_FALSE(got);
    CHECK(error_of(got).code == ErrorCode::kUnknownOutcome);
    CHECK(error_of(got).reason == "redis_timeout");
  }
  hang = false;
  REQUIRE(fixture.wait_ready());
  CHECK(fixture.server().connections() >= 2);  // the old context is not used again
  CHECK(value(fixture.echo("third")) == "third");
  CHECK(fixture.thread().run_on_loop([&] { return fixture.connection().counters().timeouts; }) >= 1);
}

TEST_CASE("A connection lost in mid-reply fails pending commands as unknown and is replaced", "[redis]") {
  std::atomic<int> lost{0};
  Fixture fixture([&](const auto& command, int connection) -> std::optional<std::string> {
    if (command[0] == "ECHO" && connection == 0) {
      if (lost++ == 0) return "$100\r\nonly a part of it";
      return std::nullopt;
    }
    return default_reply(command);
  });
  REQUIRE(fixture.wait_ready());
  auto a = fixture.echo("a");
  auto b = fixture.echo("b");
  for (auto* reply : {&a, &b}) {
    const auto got = value(std::move(*reply));
    REQUIRE_FALSE(got);
    CHECK(error_of(got).code == ErrorCode::kUnknownOutcome);
  }
  REQUIRE(fixture.wait_ready());
  CHECK(value(fixture.echo("c")) == "c");
}

TEST_CASE("Bytes that are not RESP end the connection, not the worker", "[redis]") {
  Fixture fixture([&](const auto& command, int connection) {
    return command[0] == "ECHO" && connection == 0 ? "HTTP/1.1 400 Bad Request\r\n\r\n"
                                                   : default_reply(command);
  });
  REQUIRE(fixture.wait_ready());
  CHECK_FALSE(value(fixture.echo("a")));
  REQUIRE(fixture.wait_ready());
  CHECK(value(fixture.echo("b")) == "b");
}

TEST_CASE("NOSCRIPT loads the scripts and repeats only that command", "[redis]") {
  std::atomic<int> loads{0};
  std::atomic<int> echoes{0};
  Fixture fixture([&](const FakeRedis::Command& command, int) -> std::string {
    if (command[0] == "SCRIPT") ++loads;
    if (command[0] == "ECHO") ++echoes;
    if (command[0] == "EVALSHA") return loads < 2 ? "-NOSCRIPT No matching script.\r\n" : ":7\r\n";
    return default_reply(command);
  });
  REQUIRE(fixture.wait_ready());
  std::promise<std::pair<std::int64_t, std::string>> result;
  Pipeline pipeline;
  pipeline.script(kScripts[0]).add("ECHO", "other");
  fixture.thread().run_on_loop([&] {
    spawn(
        [](RedisConnection& connection, const Pipeline& commands, auto& done) -> Task<void> {
          auto replies = co_await connection.run(commands);
          done.set_value({*(*replies)[0].integer(), std::string(*(*replies)[1].string())});
        }(fixture.connection(), pipeline, result),
        [](std::exception_ptr) {});
  });
  auto got = result.get_future();
  REQUIRE(got.wait_for(10s) == std::future_status::ready);
  CHECK(got.get() == std::pair<std::int64_t, std::string>(7, "other"));
  CHECK(loads == 2);
  CHECK(echoes == 1);
}

TEST_CASE("Arguments are length-prefixed, so none of their bytes can become protocol", "[redis]") {
  Fixture fixture([](const auto& command, int) { return default_reply(command); });
  REQUIRE(fixture.wait_ready());
  for (const std::string& text : {std::string("a\r\n*1\r\n$8\r\nFLUSHALL\r\n"), std::string("\0\0", 2),
                                  std::string(), std::string("%s%n%b"), std::string(100000, '\xff')}) {
    CHECK(value(fixture.echo(text)) == text);
  }
}

TEST_CASE("A reply of an unexpected type is an error", "[redis]") {
  Fixture fixture([](const auto& command, int) {
    return command[0] == "ECHO" ? std::string(":5\r\n") : default_reply(command);
  });
  REQUIRE(fixture.wait_ready());
  std::promise<Result<std::string>> result;
  Pipeline pipeline;
  pipeline.add("ECHO", "a");
  fixture.thread().run_on_loop([&] {
    spawn(
        [](RedisConnection& connection, const Pipeline& commands, auto& done) -> Task<void> {
          auto reply = co_await run_one(connection, commands);
          done.set_value(reply->string().map([](std::string_view s) { return std::string(s); }));
        }(fixture.connection(), pipeline, result),
        [](std::exception_ptr) {});
  });
  const auto got = result.get_future().get();
  REQUIRE_FALSE(got);
  CHECK(error_of(got).reason == "redis_type");
}

namespace {

// Failures of this class that the connection has counted.
std::uint64_t counted(Fixture& fixture, ErrorClass error_class) {
  return fixture.thread().run_on_loop(
      [&] { return fixture.connection().counters().errors_by_class[error_class]; });
}

}  // namespace

TEST_CASE("A refusal is counted by class and returned to the caller", "[redis]") {
  const std::vector<std::pair<std::string, ErrorClass>> refusals{
      {"OOM command not allowed when used memory > 'maxmemory'.", ErrorClass::kMemory},
      {"LOADING Redis is loading the dataset in memory", ErrorClass::kLoading},
      {"BUSY Redis is busy running a script.", ErrorClass::kBusy},
      {"MISCONF Redis is configured to save RDB snapshots", ErrorClass::kPersistence},
      {"NOPERM this user has no permissions", ErrorClass::kPermission},
      {"NOREPLICAS Not enough good replicas to write.", ErrorClass::kReplicas}};
  std::atomic<int> echoes{0};
  std::atomic<std::size_t> index{0};
  Fixture fixture([&](const FakeRedis::Command& command, int) {
    if (command[0] != "ECHO") return default_reply(command);
    ++echoes;
    return "-" + refusals[index].first + "\r\n";
  });
  REQUIRE(fixture.wait_ready());
  for (; index < refusals.size(); ++index) {
    INFO(refusals[index].first);
    echoes = 0;
    const auto reply = value(fixture.echo("a"));
    REQUIRE_FALSE(reply);
    CHECK(error_of(reply).code == ErrorCode::kUnavailable);
    CHECK(counted(fixture, refusals[index].second) == 1);
    CHECK(echoes == 1);  // only time helps, so it is not retried
  }
  CHECK(fixture.server().connections() == 1);
}

TEST_CASE("A command refused by a replica is sent once more to the new master", "[redis]") {
  for (const std::string code : {"READONLY", "NOAUTH", "MASTERDOWN"}) {
    std::atomic<int> refused{0}, done{0};
    Fixture fixture(
        [&](const FakeRedis::Command& command, int connection) {
          if (command[0] != "ECHO" || connection > 0) {
            if (command[0] == "ECHO") ++done;
            return default_reply(command);
          }
          ++refused;
          return "-" + code + " of this kind\r\n";
        },
        2s);
    REQUIRE(fixture.wait_ready());
    CHECK(value(fixture.echo("a")) == "a");
    CHECK(refused == 1);
    CHECK(done == 1);
    CHECK(fixture.server().connections() == 2);
  }
}

TEST_CASE("A server that keeps refusing is tried twice and stays connected", "[redis]") {
  std::atomic<int> echoes{0};
  Fixture fixture(
      [&](const FakeRedis::Command& command, int) {
        if (command[0] != "ECHO") return default_reply(command);
        ++echoes;
        return std::string("-READONLY You can't write against a read only replica.\r\n");
      },
      2s);
  REQUIRE(fixture.wait_ready());
  const auto reply = value(fixture.echo("a"));
  REQUIRE_FALSE(reply);
  CHECK(error_of(reply).reason == "redis_readonly");
  CHECK(echoes == 2);
  CHECK(counted(fixture, ErrorClass::kReadOnly) == 2);
}

TEST_CASE("A reconnect after a refusal waits for the other pending replies", "[redis]") {
  std::atomic<bool> answer{false};
  Fixture fixture(
      [&](const FakeRedis::Command& command, int connection) {
        if (command[0] == "ECHO" && command[1] == "slow") {
          while (!answer) std::this_thread::sleep_for(1ms);
        }
        if (command[0] == "ECHO" && command[1] == "write" && connection == 0)
          return std::string("-READONLY You can't write against a read only replica.\r\n");
        return default_reply(command);
      },
      5s);
  REQUIRE(fixture.wait_ready());
  const auto write_promise = std::make_shared<std::promise<Result<std::string>>>();
  const auto slow_promise = std::make_shared<std::promise<Result<std::string>>>();
  auto write = write_promise->get_future(), slow = slow_promise->get_future();
  // In one iteration, or the second would be refused by the closing connection.
  fixture.thread().run_on_loop([&] {
    fixture.start_echo("write", write_promise);
    fixture.start_echo("slow", slow_promise);
  });
  REQUIRE(fixture.wait_ready(false));
  answer = true;
  CHECK(value(std::move(slow)) == "slow");
  const auto second = value(std::move(write));
  if (second) CHECK(*second == "write");  // or the retry budget has been spent
}

TEST_CASE("No command of a discarded transaction is sent again automatically", "[redis]") {
  std::atomic<int> sets{0};
  Fixture fixture(
      [&](const FakeRedis::Command& command, int) -> std::string {
        if (command[0] == "MULTI") return "+OK\r\n";
        if (command[0] == "SET") {
          ++sets;
          return "-READONLY You can't write against a read only replica.\r\n";
        }
        if (command[0] == "EXEC") return "-EXECABORT Transaction discarded because of previous errors.\r\n";
        return default_reply(command);
      },
      2s);
  REQUIRE(fixture.wait_ready());
  std::promise<std::size_t> result;
  Pipeline pipeline;
  pipeline.add("MULTI").add("SET", "a", "b").add("EXEC");
  fixture.thread().run_on_loop([&] {
    spawn(
        [](RedisConnection& connection, const Pipeline& commands, auto& done) -> Task<void> {
          auto replies = co_await connection.run(commands);
          done.set_value(replies ? replies->size() : 0);
        }(fixture.connection(), pipeline, result),
        [](std::exception_ptr) {});
  });
  CHECK(result.get_future().get() == 3);
  CHECK(sets == 1);
}

TEST_CASE("A Redis that answers PING and nothing else costs a deadline to one request, not to each",
          "[redis]") {
  std::atomic<bool> hang{true};
  Fixture fixture([&](const FakeRedis::Command& command,
                      int) { return command[0] == "ECHO" && hang ? std::string() : default_reply(command); },
                  30ms);
  const auto opened = [&] {
    return fixture.thread().run_on_loop(
        [&] { return fixture.connection().breaker().state() == BreakerState::kHalfOpen; });
  };
  REQUIRE(fixture.wait_ready());
  while (!opened()) {
    value(fixture.echo("x"));
    REQUIRE(fixture.wait_ready());
  }
  // While one pipeline is in flight, all others are refused without being sent.
  std::vector<std::future<Result<std::string>>> replies;
  fixture.thread().run_on_loop([&] {
    for (int i = 0; i < 20; ++i) {
      auto result = std::make_shared<std::promise<Result<std::string>>>();
      replies.push_back(result->get_future());
      fixture.start_echo(std::to_string(i), result);
    }
  });
  std::map<std::string_view, int> reasons;
  for (auto& each : replies) {
    const auto got = value(std::move(each));
    REQUIRE_FALSE(got);
    ++reasons[error_of(got).reason];
  }
  CHECK(reasons["redis_unavailable"] >= 19);
  hang = false;
  const auto healthy = [&] {
    return fixture.thread().run_on_loop(
        [&] { return fixture.connection().breaker().state() == BreakerState::kClosed; });
  };
  while (!healthy()) {
    REQUIRE(fixture.wait_ready());
    value(fixture.echo("back"));
  }
  CHECK(value(fixture.echo("a")) == "a");
}

TEST_CASE("Failed connection attempts are counted", "[redis]") {
  Fixture fixture([](const auto& command, int connection) {
    return connection < 2 && command[0] == "PING" ? "-LOADING Redis is loading the dataset in memory\r\n"
                                                  : default_reply(command);
  });
  REQUIRE(fixture.wait_ready());
  CHECK(counted(fixture, ErrorClass::kConnect) == 2);
  CHECK(counted(fixture, ErrorClass::kLoading) == 2);
  CHECK(counted(fixture, ErrorClass::kUnavailable) == 0);
}
