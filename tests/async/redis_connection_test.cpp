#include "core/async/redis_connection.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <set>

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

// Answers PING and SCRIPT LOAD as a server does; ECHO echoes.
std::string polite(const FakeRedis::Command& command) {
  if (command[0] == "PING") return "+PONG\r\n";
  if (command[0] == "ECHO") return bulk(command[1]);
  if (command[0] == "SCRIPT") return bulk(kScripts[0].sha1);
  return "-ERR unknown command\r\n";
}

class Fixture {
 public:
  explicit Fixture(FakeRedis::Answer answer, milliseconds timeout = 100ms)
      : server_((directory_.path() / "r").string(), std::move(answer)) {
    thread_.on_loop([&] {
      LinkOptions options;
      options.endpoint.unix_path = (directory_.path() / "r").string();
      options.timeout = timeout;
      options.reconnect_min = 5ms;
      options.reconnect_max = 50ms;
      connection_ = std::make_unique<RedisConnection>(thread_.loop(), options, kScripts);
      connection_->connect();
    });
  }
  ~Fixture() {
    thread_.on_loop([&] { connection_.reset(); });
    thread_.stop();
  }

  bool wait_ready(bool wanted = true) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (std::chrono::steady_clock::now() < deadline) {
      if (thread_.on_loop([&] { return connection_->ready(); }) == wanted) return true;
      std::this_thread::yield();
    }
    return false;
  }
  // Starts ECHO `text` on the loop, without waiting for it.
  std::future<Result<std::string>> echo(std::string text) {
    auto result = std::make_shared<std::promise<Result<std::string>>>();
    auto future = result->get_future();
    thread_.on_loop([&] { start_echo(std::move(text), result); });
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
  Fixture fixture([](const auto& command, int) { return polite(command); });
  REQUIRE(fixture.wait_ready());
  std::vector<std::future<Result<std::string>>> replies;
  for (int i = 0; i < 1000; ++i) replies.push_back(fixture.echo(std::to_string(i)));
  for (int i = 0; i < 1000; ++i)
    CHECK(value(std::move(replies[static_cast<std::size_t>(i)])) == std::to_string(i));
}

TEST_CASE("The commands of one turn of the loop leave in one write", "[redis]") {
  Fixture fixture([](const auto& command, int) { return polite(command); }, 2s);
  REQUIRE(fixture.wait_ready());
  const int before = fixture.server().reads();
  std::vector<std::future<Result<std::string>>> replies;
  fixture.thread().on_loop([&] {
    for (int i = 0; i < 100; ++i) {
      auto result = std::make_shared<std::promise<Result<std::string>>>();
      replies.push_back(result->get_future());
      fixture.start_echo(std::to_string(i), result);
    }
  });
  for (auto& reply : replies) CHECK(value(std::move(reply)));
  CHECK(fixture.server().reads() == before + 1);
}

TEST_CASE("A command before the connection is ready fails at once: nothing was sent", "[redis]") {
  Fixture fixture([](const auto&, int) { return std::string(); });
  const auto reply = value(fixture.echo("a"));
  REQUIRE_FALSE(reply);
  CHECK(reply.error().code == ErrorCode::kUnavailable);
  CHECK(reply.error().reason == "redis_away");
}

TEST_CASE("A hand-shake that is never answered has a deadline too, and is tried again", "[redis]") {
  Fixture fixture(
      [](const auto& command, int connection) { return connection < 2 ? std::string() : polite(command); },
      20ms);
  CHECK(fixture.wait_ready());
  CHECK(fixture.server().connections() == 3);
}

TEST_CASE("A hand-shake answered by an error is not readiness", "[redis]") {
  Fixture fixture([](const auto& command, int connection) {
    return connection < 2 && command[0] == "PING" ? "-LOADING Redis is loading the dataset in memory\r\n"
                                                  : polite(command);
  });
  CHECK(fixture.wait_ready());
  CHECK(fixture.server().connections() == 3);
}

TEST_CASE("A deadline fails all that was pending, and a late reply reaches nobody", "[redis]") {
  std::atomic<bool> hang{true};
  std::string owed;  // the server's thread only
  Fixture fixture(
      [&](const auto& command, int connection) -> std::optional<std::string> {
        if (command[0] == "ECHO" && connection == 0 && hang) {
          owed += bulk(command[1]);
          return std::string();
        }
        return polite(command);
      },
      30ms);
  REQUIRE(fixture.wait_ready());
  auto first = fixture.echo("first");
  auto second = fixture.echo("second");
  for (auto* reply : {&first, &second}) {
    const auto got = value(std::move(*reply));
    REQUIRE_FALSE(got);
    CHECK(got.error().code == ErrorCode::kUnknownOutcome);
    CHECK(got.error().reason == "redis_timeout");
  }
  hang = false;
  REQUIRE(fixture.wait_ready());
  CHECK(fixture.server().connections() == 2);  // the old context is gone for good
  CHECK(value(fixture.echo("third")) == "third");
  CHECK(fixture.thread().on_loop([&] { return fixture.connection().counters().timeouts; }) == 1);
}

TEST_CASE("A connection lost in mid-reply fails what was pending as unknown, then works anew", "[redis]") {
  std::atomic<int> lost{0};
  Fixture fixture([&](const auto& command, int connection) -> std::optional<std::string> {
    if (command[0] == "ECHO" && connection == 0) {
      if (lost++ == 0) return "$100\r\nonly a part of it";
      return std::nullopt;
    }
    return polite(command);
  });
  REQUIRE(fixture.wait_ready());
  auto a = fixture.echo("a");
  auto b = fixture.echo("b");
  for (auto* reply : {&a, &b}) {
    const auto got = value(std::move(*reply));
    REQUIRE_FALSE(got);
    CHECK(got.error().code == ErrorCode::kUnknownOutcome);
  }
  REQUIRE(fixture.wait_ready());
  CHECK(value(fixture.echo("c")) == "c");
}

TEST_CASE("Bytes that are not Redis' protocol end the connection, not the worker", "[redis]") {
  Fixture fixture([&](const auto& command, int connection) {
    return command[0] == "ECHO" && connection == 0 ? "HTTP/1.1 400 Bad Request\r\n\r\n" : polite(command);
  });
  REQUIRE(fixture.wait_ready());
  CHECK_FALSE(value(fixture.echo("a")));
  REQUIRE(fixture.wait_ready());
  CHECK(value(fixture.echo("b")) == "b");
}

TEST_CASE("NOSCRIPT is cured by loading the scripts and sending only that command again", "[redis]") {
  std::atomic<int> loads{0};
  std::atomic<int> echoes{0};
  Fixture fixture([&](const FakeRedis::Command& command, int) -> std::string {
    if (command[0] == "SCRIPT") ++loads;
    if (command[0] == "ECHO") ++echoes;
    if (command[0] == "EVALSHA") return loads < 2 ? "-NOSCRIPT No matching script.\r\n" : ":7\r\n";
    return polite(command);
  });
  REQUIRE(fixture.wait_ready());
  std::promise<std::pair<std::int64_t, std::string>> result;
  Pipeline pipeline;
  pipeline.script(kScripts[0], 0, 0).add("ECHO", "beside");
  fixture.thread().on_loop([&] {
    spawn(
        [](RedisConnection& connection, const Pipeline& commands, auto& done) -> Task<void> {
          auto replies = co_await connection.run(commands);
          done.set_value({*(*replies)[0].integer(), std::string(*(*replies)[1].string())});
        }(fixture.connection(), pipeline, result),
        [](std::exception_ptr) {});
  });
  auto got = result.get_future();
  REQUIRE(got.wait_for(10s) == std::future_status::ready);
  CHECK(got.get() == std::pair<std::int64_t, std::string>(7, "beside"));
  CHECK(loads == 2);
  CHECK(echoes == 1);
}

TEST_CASE("Arguments go by length: no byte in them can become protocol", "[redis]") {
  Fixture fixture([](const auto& command, int) { return polite(command); });
  REQUIRE(fixture.wait_ready());
  for (const std::string& text : {std::string("a\r\n*1\r\n$8\r\nFLUSHALL\r\n"), std::string("\0\0", 2),
                                  std::string(), std::string("%s%n%b"), std::string(100000, '\xff')}) {
    CHECK(value(fixture.echo(text)) == text);
  }
}

TEST_CASE("A reply of another type is an error, not a guess", "[redis]") {
  Fixture fixture([](const auto& command, int) {
    return command[0] == "ECHO" ? std::string(":5\r\n") : polite(command);
  });
  REQUIRE(fixture.wait_ready());
  std::promise<Result<std::string>> result;
  Pipeline pipeline;
  pipeline.add("ECHO", "a");
  fixture.thread().on_loop([&] {
    spawn(
        [](RedisConnection& connection, const Pipeline& commands, auto& done) -> Task<void> {
          auto reply = co_await run_one(connection, commands);
          done.set_value(reply->string().map([](std::string_view s) { return std::string(s); }));
        }(fixture.connection(), pipeline, result),
        [](std::exception_ptr) {});
  });
  const auto got = result.get_future().get();
  REQUIRE_FALSE(got);
  CHECK(got.error().reason == "redis_type");
}

TEST_CASE("Each error line of Redis has its meaning", "[redis]") {
  CHECK(classify("OOM command not allowed").reason == "redis_oom");
  CHECK(classify("READONLY You can't write").code == ErrorCode::kUnavailable);
  CHECK(classify("LOADING").reason == "redis_loading");
  CHECK(classify("NOPERM this user").reason == "redis_noperm");
  CHECK(classify("WRONGTYPE Operation").code == ErrorCode::kInternal);
  CHECK(classify("ERR OOM").code == ErrorCode::kInternal);
}
