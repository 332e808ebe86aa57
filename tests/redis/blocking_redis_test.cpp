// The blocking connection: no reply to the wrong command, whatever happens to the server.
#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

redis::Pipeline one(std::string_view name, std::string_view argument) {
  redis::Pipeline out;
  out.add(name, argument);
  return out;
}

}  // namespace

TEST_CASE("a script that the server has forgotten is loaded and run once", "[sync]") {
  Fixture f;
  f.track(Fixture::track_event("a", "v", 0));
  f.command("SCRIPT", "FLUSH");
  CHECK(f.track(Fixture::track_event("a", "w", 0)).pv == 2);
}

TEST_CASE("the SHA-1 that the build computed is the server's", "[sync]") {
  Fixture f;
  for (const auto& script : redis::kAllScripts) {
    INFO(script.name);
    CHECK(f.text(f.command("SCRIPT", "LOAD", script.source)) == script.sha1);
  }
}

TEST_CASE("after a timeout the late reply does not answer the next command", "[sync]") {
  RedisServer own;
  redis::BlockingRedis client(own.endpoint(), milliseconds(300), {});
  REQUIRE(client.call(one("ECHO", "first")));
  own.pause();
  const auto late = client.call(one("ECHO", "late"));
  own.resume();
  REQUIRE_FALSE(late);
  CHECK(late.error().code == ErrorCode::kUnknownOutcome);
  CHECK(late.error().reason == "redis_timeout");
  CHECK_FALSE(client.ready());
  Result<redis::Replies> next = client.call(one("ECHO", "next"));
  while (!next) next = client.call(one("ECHO", "next"));
  CHECK(next->front().string().value_or("") == "next");
}

TEST_CASE("a server that went away is found again, and counters survive its restart", "[sync]") {
  RedisServer own({"--appendonly", "yes", "--appendfsync", "always"});
  redis::BlockingRedis client(own.endpoint(), milliseconds(5000), redis::kAllScripts);
  ImmediateWriteQueue later(client);
  const Settings settings;
  DeferredWork behind(later, settings, redis::Keys(""));
  hot::RedisHotStore hot(client, behind.writers, settings, redis::Keys(""), [] { return "e"; });
  REQUIRE(run_sync(hot.track(Fixture::track_event("a", "v", 1000))));
  own.kill();
  const auto away = run_sync(hot.track(Fixture::track_event("a", "w", 1000)));
  REQUIRE_FALSE(away);
  const auto still = run_sync(hot.track(Fixture::track_event("a", "w", 1000)));
  REQUIRE_FALSE(still);
  CHECK(still.error().code == ErrorCode::kUnavailable);
  CHECK(still.error().reason == "redis_unavailable");
  own.start();
  const auto back = run_sync(hot.track(Fixture::track_event("a", "w", 1000)));
  REQUIRE(back);
  CHECK(back->pv == 2);
}

TEST_CASE("a server that refuses writes for want of memory refuses a report as a whole", "[sync]") {
  RedisServer own({"--maxmemory", "1", "--maxmemory-policy", "noeviction"});
  redis::BlockingRedis client(own.endpoint(), milliseconds(5000), redis::kAllScripts);
  ImmediateWriteQueue later(client);
  const Settings settings;
  DeferredWork behind(later, settings, redis::Keys(""));
  hot::RedisHotStore hot(client, behind.writers, settings, redis::Keys(""), [] { return "e"; });
  auto event = Fixture::track_event("a", "v", 1000);
  event.event_id = EventId::trusted("e1");
  const auto refused = run_sync(hot.track(event));
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kUnavailable);
  CHECK(refused.error().reason == "redis_oom");
  redis::Pipeline size;
  size.add("DBSIZE");
  CHECK(client.call(size)->front().integer().value_or(9) == 0);
}

TEST_CASE("another database is another world", "[sync]") {
  Fixture f;
  f.command("SET", "here", 1);
  const auto endpoint = redis::parse_url(server().url() + "?db=3");
  REQUIRE(endpoint);
  redis::BlockingRedis other(*endpoint, milliseconds(5000), {});
  CHECK(other.call(one("EXISTS", "here"))->front().integer().value_or(9) == 0);
}
