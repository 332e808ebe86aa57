#include "core/redis/redis_url.h"

#include <catch2/catch.hpp>

using namespace freshet::redis;

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

TEST_CASE("An invalid Redis URL is refused", "[redis]") {
  for (const char* url : {"", "/run/redis.sock", "unix://", "unix://relative", "unix:///a?db=x",
                          "unix:///a?x=1", "redis://", "redis://h:0", "redis://h:99999", "redis://h:1x",
                          "redis://h/x", "redis://password@h", "redis://[::1", "rediss://h"}) {
    CAPTURE(url);
    const auto parsed = parse_url(url);
    REQUIRE_FALSE(parsed);
    CHECK(parsed.error().reason == "bad_redis_url");
  }
}

TEST_CASE("A cluster's URL lists addresses of some of its nodes", "[redis]") {
  const auto parsed = parse_url("redis+cluster://app:s:cret@192.0.2.7:6380,[2001:db8::1]:7000");
  REQUIRE(parsed);
  REQUIRE(parsed->is_cluster());
  CHECK(parsed->nodes == std::vector<Address>{{"192.0.2.7", 6380}, {"2001:db8::1", 7000}});
  CHECK(parsed->username == "app");
  CHECK(parsed->password == "s:cret");
  CHECK(to_string(*parsed) == "the cluster of 192.0.2.7:6380, [2001:db8::1]:7000");
  CHECK_FALSE(parse_url("redis://192.0.2.7:6380")->is_cluster());
}

TEST_CASE("Settings that a cluster does not support are refused with advice", "[redis]") {
  const auto why = [](const char* url) { return parse_url(url).error().detail; };
  CHECK_THAT(why("redis+cluster://"),
             Catch::Contains("needs nodes with their ports, such as 192.0.2.1:6379,"));
  CHECK_THAT(why("redis+cluster://192.0.2.1:1,"), Catch::Contains("needs nodes"));
  CHECK_THAT(why("redis+cluster://192.0.2:6379"), Catch::Contains("needs nodes"));
  CHECK_THAT(why("redis+cluster://one.example"), Catch::Contains("needs nodes"));
  CHECK_THAT(why("redis+cluster://[one.example]:6379"), Catch::Contains("needs nodes"));
  CHECK(parse_url("redis+cluster://one.example:6379")->nodes == std::vector<Address>{{"one.example", 6379}});
  CHECK_THAT(why("redis+cluster://192.0.2.1:6379/2"), Catch::Contains("remove /db"));
  CHECK_THAT(why("redis+cluster://secret@192.0.2.1:6379"), Catch::Contains("user:password"));
  freshet::RedisSettings settings;
  settings.url = "redis+cluster://192.0.2.1:6379";
  settings.db = 2;
  CHECK_THAT(endpoint_of(settings, "", "").error().detail, Catch::Contains("redis.db: a cluster has only"));
  settings.db = 0;
  settings.sentinels = {"192.0.2.1:26379"};
  CHECK_THAT(endpoint_of(settings, "", "").error().detail,
             Catch::Contains("redis.sentinels: not used with a cluster"));
  settings.sentinels.clear();
  REQUIRE(endpoint_of(settings, "word", ""));
  CHECK(endpoint_of(settings, "word", "")->password == "word");
}
