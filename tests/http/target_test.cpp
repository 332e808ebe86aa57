#include "fcgi/http/target.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

#include "core/base/hex.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;
using http::Target;

namespace {

std::string parameter(std::string_view uri, std::string_view name) {
  const auto target = Target::parse(uri);
  REQUIRE(target);
  const auto value = target->parameter(name);
  return value ? std::string(*value) : "(absent)";
}

}  // namespace

TEST_CASE("the path stays raw and ends at the first question mark", "[target]") {
  CHECK(Target::parse("/api/items/a%2Fb?x=1")->path() == "/api/items/a%2Fb");
  CHECK(Target::parse("/api/hot")->path() == "/api/hot");
  CHECK(Target::parse("/?a?b=c")->path() == "/");
  CHECK(parameter("/?a?b=c", "a?b") == "c");
}

TEST_CASE("parameters are decoded once; plus is a space", "[target]") {
  CHECK(parameter("/x?id=a%2Fb", "id") == "a/b");
  CHECK(parameter("/x?id=a%252Fb", "id") == "a%2Fb");
  CHECK(parameter("/x?id=a+b%2B", "id") == "a b+");
  CHECK(parameter("/x?i%64=1", "id") == "1");
  CHECK(parameter("/x?id=%e6%96%87&b=%E6", "id") == "文");
  CHECK(parameter("/x?id=文|{[", "id") == "文|{[");
}

TEST_CASE("the last of duplicate parameters wins", "[target]") {
  CHECK(parameter("/x?a=1&b=2&a=3", "a") == "3");
  CHECK(parameter("/x?a=1&a", "a").empty());
}

TEST_CASE("a parameter may be empty, nameless or absent", "[target]") {
  CHECK(parameter("/x?a", "a").empty());
  CHECK(parameter("/x?a=", "a").empty());
  CHECK(parameter("/x?a=b=c", "a") == "b=c");
  CHECK(parameter("/x?=v", "") == "v");
  CHECK(parameter("/x?&&a=1&", "a") == "1");
  CHECK(parameter("/x?", "a") == "(absent)");
  CHECK(parameter("/x", "a") == "(absent)");
  CHECK(parameter("/x?A=1", "a") == "(absent)");
}

TEST_CASE("bad escapes and targets without a path are rejected", "[target]") {
  for (const char* uri : {"/x?a=%", "/x?a=%2", "/x?a=%zz", "/x?a=%4g", "/x?a=%g4", "/x?%=1", "/x?a=1&b=%g0",
                          "/x?a=%%41", "", "*", "x", "http://h/x", "?a=1"}) {
    INFO(uri);
    const auto target = Target::parse(uri);
    REQUIRE_FALSE(target);
    CHECK(error_of(target).reason == "bad_target");
  }
}

TEST_CASE("a NUL is rejected in parameters and segments", "[target]") {
  for (const char* uri : {"/x?id=a%00b", "/x?id=%00", "/x?id%00=a", "/x?a=1&id=%00"}) {
    INFO(uri);
    const auto target = Target::parse(uri);
    REQUIRE_FALSE(target);
    CHECK(error_of(target).reason == "bad_target");
    CHECK(error_of(target).member == "id");
  }
  CHECK_FALSE(http::percent_decode("a%00b"));
  CHECK(http::percent_decode("a%01b") ==
        "a\x01"
        "b");
}

TEST_CASE("the number of parameters is bounded", "[target]") {
  std::string uri = "/x?";
  for (std::size_t i = 0; i < http::kMaxParameters; ++i) uri += "a=1&";
  CHECK(Target::parse(uri));
  CHECK_FALSE(Target::parse(uri + "a=1"));
}

TEST_CASE("errors of typed parameters name the parameter", "[target]") {
  const std::string uri =
      "/x?limit=20&neg=-5&bad=2x&big=99999999999999999999&empty=&id=a&tab=a%09b&float=1.0&plus=%2B1&zero=0";
  const auto target = Target::parse(uri);
  CHECK(http::integer_parameter(*target, "limit", 10, 1, 100) == 20);
  CHECK(http::integer_parameter(*target, "absent", 10, 1, 100) == 10);
  CHECK(http::integer_parameter(*target, "neg", 10, -5, 100) == -5);
  for (const std::string name : {"neg", "bad", "big", "empty", "id", "float", "plus"}) {
    INFO(name);
    const auto value = http::integer_parameter(*target, name, 10, 1, 100);
    REQUIRE_FALSE(value);
    CHECK(error_of(value).reason == "bad_number");
    CHECK(error_of(value).member == name);
  }
  CHECK(http::id_parameter<ItemId>(*target, "id")->str() == "a");
  CHECK(http::id_parameter<ItemId>(*target, "absent")->empty());
  CHECK(error_of(http::id_parameter<ItemId>(*target, "tab")).member == "tab");
  CHECK(http::id_parameter<ItemId>(*target, "empty")->empty());
  CHECK(http::id_parameter<ItemId>(*target, "zero")->str() == "0");
  CHECK(http::id_parameter<ReaderId>(*target, "zero")->empty());
}

TEST_CASE("percent-encoded bytes decode to the same bytes", "[target]") {
  CHECK(rc::check("round trip", [](const std::string& bytes) {
    std::string encoded;
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      append_hex(encoded.append("%"), byte);
    }
    RC_ASSERT(http::percent_decode(encoded) == bytes);
    const std::string uri = "/?" + encoded + "=" + encoded;
    const auto target = Target::parse(uri);
    RC_ASSERT(target && target->parameter(bytes) == bytes);
  }));
}
