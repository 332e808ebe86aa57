// BlockingRedis never gives a reply to the wrong command, whatever happens to the server.
#include "tests/support/error_of.h"
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

redis::Pipeline make_command(std::string_view name, std::string_view argument) {
  redis::Pipeline out;
  out.add(name, argument);
  return out;
}

}  // namespace

TEST_CASE("a script missing on the server is loaded and run once", "[sync]") {
  Fixture f;
  f.track(Fixture::track_event("a", "v", 0));
  f.command("SCRIPT", "FLUSH");
  CHECK(f.track(Fixture::track_event("a", "w", 0)).pv == 2);
}

TEST_CASE("the build computes the same SHA-1 as the server", "[sync]") {
  Fixture f;
  for (const auto& script : redis::kAllScripts) {
    INFO(script.name);
    CHECK(f.text(f.command("SCRIPT", "LOAD", script.source)) == script.sha1);
  }
}

TEST_CASE("after a timeout the late reply does not answer the next command", "[sync]") {
  RedisServer private_server;
  redis::BlockingRedis client(private_server.endpoint(), milliseconds(300), {});
  REQUIRE(client.call(make_command("ECHO", "first")));
  private_server.pause();
  const auto late = client.call(make_command("ECHO", "late"));
  private_server.resume();
  REQUIRE_FALSE(late);
  CHECK(error_of(late).code == ErrorCode::kUnknownOutcome);
  CHECK(error_of(late).reason == "redis_timeout");
  CHECK_FALSE(client.ready());
  Result<redis::Replies> next = client.call(make_command("ECHO", "next"));
  while (!next) next = client.call(make_command("ECHO", "next"));
  CHECK(next->front().string().value_or("") == "next");
}

TEST_CASE("a restarted server is found again, and counters survive the restart", "[sync]") {
  RedisServer private_server({"--appendonly", "yes", "--appendfsync", "always"});
  redis::BlockingRedis client(private_server.endpoint(), milliseconds(5000), redis::kAllScripts);
  ImmediateWriteQueue write_queue(client);
  const Settings settings;
  DeferredWork deferred_work(write_queue, settings, redis::Keys(""));
  hot::RedisHotStore hot(client, deferred_work.writers, settings, redis::Keys(""), [] { return "e"; });
  REQUIRE(run_sync(hot.track(Fixture::track_event("a", "v", 1000))));
  private_server.kill();
  const auto first_error = run_sync(hot.track(Fixture::track_event("a", "w", 1000)));
  REQUIRE_FALSE(first_error);
  const auto second_error = run_sync(hot.track(Fixture::track_event("a", "w", 1000)));
  REQUIRE_FALSE(second_error);
  CHECK(error_of(second_error).code == ErrorCode::kUnavailable);
  CHECK(error_of(second_error).reason == "redis_unavailable");
  private_server.start();
  const auto recovered = run_sync(hot.track(Fixture::track_event("a", "w", 1000)));
  REQUIRE(recovered);
  CHECK(recovered->pv == 2);
}

TEST_CASE("a server that is out of memory refuses a report as a whole", "[sync]") {
  RedisServer private_server({"--maxmemory", "1", "--maxmemory-policy", "noeviction"});
  redis::BlockingRedis client(private_server.endpoint(), milliseconds(5000), redis::kAllScripts);
  ImmediateWriteQueue write_queue(client);
  const Settings settings;
  DeferredWork deferred_work(write_queue, settings, redis::Keys(""));
  hot::RedisHotStore hot(client, deferred_work.writers, settings, redis::Keys(""), [] { return "e"; });
  auto event = Fixture::track_event("a", "v", 1000);
  event.event_id = EventId::trusted("e1");
  const auto refused = run_sync(hot.track(event));
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).code == ErrorCode::kUnavailable);
  CHECK(error_of(refused).reason == "redis_oom");
  redis::Pipeline size;
  size.add("DBSIZE");
  CHECK(client.call(size)->front().integer().value_or(9) == 0);
}

TEST_CASE("another database holds other keys", "[sync]") {
  Fixture f;
  f.command("SET", "here", 1);
  const auto endpoint = redis::parse_url(server().url() + "?db=3");
  REQUIRE(endpoint);
  redis::BlockingRedis other(*endpoint, milliseconds(5000), {});
  CHECK(other.call(make_command("EXISTS", "here"))->front().integer().value_or(9) == 0);
}
