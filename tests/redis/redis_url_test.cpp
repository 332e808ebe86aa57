#include "core/redis/redis_url.h"

#include <catch2/catch.hpp>

using freshet::redis::parse_url;

TEST_CASE("A Redis URL names a unix socket or a host", "[redis]") {
  const auto local = parse_url("unix:///run/redis.sock?db=3");
  REQUIRE(local);
  CHECK(local->unix_path == "/run/redis.sock");
  CHECK(local->db == 3);

  const auto remote = parse_url("redis://app:s:cret@192.0.2.7:6380/2");
  REQUIRE(remote);
  CHECK(remote->unix_path.empty());
  CHECK(remote->host == "192.0.2.7");
  CHECK(remote->port == 6380);
  CHECK(remote->username == "app");
  CHECK(remote->password == "s:cret");
  CHECK(remote->db == 2);

  const auto six = parse_url("redis://[::1]:7000");
  REQUIRE(six);
  CHECK(six->host == "::1");
  CHECK(six->port == 7000);
  CHECK(parse_url("redis://localhost")->port == 6379);
}

TEST_CASE("A Redis URL that means nothing is refused", "[redis]") {
  for (const char* url : {"", "/run/redis.sock", "unix://", "unix://relative", "unix:///a?db=x",
                          "unix:///a?x=1", "redis://", "redis://h:0", "redis://h:99999", "redis://h:1x",
                          "redis://h/x", "redis://password@h", "redis://[::1", "rediss://h"}) {
    CAPTURE(url);
    const auto parsed = parse_url(url);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().reason == "bad_redis_url");
  }
}
