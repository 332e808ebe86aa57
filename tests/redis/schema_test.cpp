// The name and version of a server, from what INFO says.
#include "core/redis/schema.h"

#include <catch2/catch.hpp>

#include "tests/support/error_of.h"

using namespace freshet::redis;

namespace {

std::string info_of(const std::string& lines) { return "# Server\r\n" + lines + "os:Linux\r\n"; }

}  // namespace

TEST_CASE("a value of INFO is that of the whole line's name", "[schema]") {
  const std::string info = info_of("redis_version:7.0.15\r\nredis_git_sha1:0\r\n");
  CHECK(info_value(info, "redis_version") == "7.0.15");
  CHECK(info_value(info, "os") == "Linux");
  CHECK(info_value(info, "version").empty());
  CHECK(info_value(info, "redis").empty());
  CHECK(info_value("os:Linux", "os") == "Linux");
  CHECK(info_value("", "os").empty());
}

TEST_CASE("a server is named by the version that it states for itself", "[schema]") {
  CHECK(server_name(info_of("redis_version:8.0.2\r\n")) == "Redis 8.0.2");
  CHECK(server_name(info_of("redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.1\r\n")) ==
        "Valkey 8.1.1");
  CHECK(server_name("").empty());
}

TEST_CASE("a Redis before 7.0 is rejected with what is needed", "[schema]") {
  for (const char* const old : {"5.0.14", "6.2.14", "4"}) {
    INFO(old);
    const auto checked = check_server_version(info_of(std::string("redis_version:") + old + "\r\n"));
    REQUIRE_FALSE(checked);
    CHECK(freshet::test::error_of(checked).reason == "redis_too_old");
    CHECK(freshet::test::error_of(checked).detail.starts_with("Redis " + std::string(old) + " lacks "));
    CHECK(freshet::test::error_of(checked).detail.ends_with("needs Redis 7.0 or later, or Valkey"));
  }
  for (const char* const good : {"7.0.0", "8.0.2", "10.1", "7"}) {
    INFO(good);
    CHECK(check_server_version(info_of(std::string("redis_version:") + good + "\r\n")));
  }
  CHECK(check_server_version(info_of("redis_version:7.2.4\r\nvalkey_version:8.1.1\r\n")));
  CHECK(check_server_version("NOPERM"));
}
