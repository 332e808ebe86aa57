#include <catch2/catch.hpp>

#include "core/base/json.h"

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct Body {
  std::string text;
  json::Document document;
  explicit Body(std::string from) : text(std::move(from)) { REQUIRE(document.parse(text)); }
  json::Value root() const { return document.root(); }
};

template <class T>
void check_error(const Result<T>& result, std::string_view reason, const std::string& member) {
  REQUIRE_FALSE(result);
  CHECK(error_of(result).code == ErrorCode::kInvalid);
  CHECK(error_of(result).reason == reason);
  CHECK(error_of(result).member == member);
  CHECK_FALSE(error_of(result).detail.empty());
}

}  // namespace

TEST_CASE("12 and \"12\" are the same id", "[json][members]") {
  const Body body(R"({"a":12,"b":"12","c":-9223372036854775808,"d":18446744073709551615})");
  CHECK(json::required_id<ItemId>(body.root(), "a").value() ==
        json::required_id<ItemId>(body.root(), "b").value());
  CHECK(json::required_id<ItemId>(body.root(), "c")->str() == "-9223372036854775808");
  CHECK(json::required_id<ItemId>(body.root(), "d")->str() == "18446744073709551615");
}

TEST_CASE("a value that is neither a string nor an integer is not an id", "[json][members]") {
  const Body body(
      R"({"a":1.0,"b":1e3,"c":true,"d":null,"e":{"$gt":""},"f":["x"],"g":18446744073709551616,"h":""})");
  for (const std::string member : {"a", "b", "c", "d", "e", "f", "g", "h", "absent"}) {
    INFO(member);
    check_error(json::required_id<ItemId>(body.root(), member), "bad_id", member);
  }
}

TEST_CASE("an optional id is empty if absent, null or \"\", and is otherwise validated", "[json][members]") {
  const Body body(R"({"a":null,"b":"x","c":"","d":false,"e":" "})");
  CHECK(json::optional_id<ItemId>(body.root(), "absent")->empty());
  CHECK(json::optional_id<ItemId>(body.root(), "a")->empty());
  CHECK(json::optional_id<ItemId>(body.root(), "b")->str() == "x");
  CHECK(json::optional_id<ItemId>(body.root(), "c")->empty());
  check_error(json::optional_id<ItemId>(body.root(), "d"), "bad_id", "d");
  check_error(json::optional_id<ItemId>(body.root(), "e"), "bad_id", "e");
}

TEST_CASE("0 names no reader, but an item and a session", "[json][members]") {
  const Body body(R"({"number":0,"text":"0","other":"00"})");
  for (const std::string member : {"number", "text"}) {
    INFO(member);
    CHECK(json::optional_id<ReaderId>(body.root(), member)->empty());
    CHECK(error_of(json::required_id<ReaderId>(body.root(), member)).detail == "is missing");
    CHECK(json::required_id<ItemId>(body.root(), member)->str() == "0");
    CHECK(json::optional_id<SessionId>(body.root(), member)->str() == "0");
  }
  CHECK(json::optional_id<ReaderId>(body.root(), "other")->str() == "00");
}

TEST_CASE("a rounded member is any number in range", "[json][members]") {
  const Body body(
      R"({"a":1500.7,"b":1500.5,"c":1e3,"d":-0.4,"e":7,"f":-0.5,"g":100.5,"h":1e300,"i":-1e300,
          "j":"1","k":18446744073709551615,"l":true,"m":9223372036854775807.5,"n":null})");
  const auto rounded = [&](std::string_view member, std::int64_t high = INT64_MAX) {
    return json::required_rounded(body.root(), member, 0, high);
  };
  CHECK(rounded("a") == 1501);
  CHECK(rounded("b") == 1501);
  CHECK(rounded("c") == 1000);
  CHECK(rounded("d") == 0);
  CHECK(rounded("e") == 7);
  for (const std::string member : {"f", "h", "i", "j", "k", "l", "m", "n", "absent"}) {
    INFO(member);
    check_error(rounded(member), "bad_number", member);
  }
  CHECK(rounded("g", 101) == 101);
  check_error(rounded("g", 100), "bad_number", "g");
}

TEST_CASE("times are dates or integers, and a zero date is absent", "[json][members]") {
  const Body body(
      R"({"a":"2026-03-06T12:00:00Z","b":1772798400,"c":null,"d":1772798400.5,"e":-1,"f":"","g":"1772798400",
                      "h":253402300800,"i":18446744073709551615,"j":true,"k":"0000-00-00 00:00:00",
                      "l":"2026-03-06 12:00:00","m":"Fri, 06 Mar 2026 12:00:00 GMT"})");
  CHECK(json::optional_time(body.root(), "a").value() == json::optional_time(body.root(), "b").value());
  CHECK(json::optional_time(body.root(), "l").value() == json::optional_time(body.root(), "b").value());
  CHECK(json::optional_time(body.root(), "m").value() == json::optional_time(body.root(), "b").value());
  CHECK_FALSE(json::optional_time(body.root(), "k")->has_value());
  CHECK_FALSE(json::optional_time(body.root(), "c")->has_value());
  CHECK_FALSE(json::optional_time(body.root(), "f")->has_value());
  CHECK_FALSE(json::optional_time(body.root(), "absent")->has_value());
  for (const std::string member : {"d", "e", "g", "h", "i", "j"}) {
    INFO(member);
    check_error(json::optional_time(body.root(), member), "bad_time", member);
  }
}

TEST_CASE("integers must be integral and in range", "[json][members]") {
  const Body body(
      R"({"a":0,"b":100,"c":101,"d":-1,"e":1.0,"f":"20","g":null,"h":18446744073709551615,"i":true})");
  CHECK(json::required_integer(body.root(), "a", 0, 100) == 0);
  CHECK(json::required_integer(body.root(), "b", 0, 100) == 100);
  for (const std::string member : {"c", "d", "e", "f", "g", "h", "i", "absent"}) {
    INFO(member);
    check_error(json::required_integer(body.root(), member, 0, 100), "bad_number", member);
  }
  CHECK_FALSE(json::optional_integer(body.root(), "g", 0, 100)->has_value());
  CHECK_FALSE(json::optional_integer(body.root(), "absent", 0, 100)->has_value());
  CHECK(json::optional_integer(body.root(), "b", 0, 100).value() == std::optional<std::int64_t>(100));
  check_error(json::optional_integer(body.root(), "c", 0, 100), "bad_number", "c");
}

TEST_CASE("a required member that is absent or null is reported as missing", "[json][members]") {
  const Body body(R"({"null":null})");
  for (const std::string member : {"null", "absent"}) {
    INFO(member);
    const auto check_missing = [&](const auto& result, std::string_view reason) {
      check_error(result, reason, member);
      CHECK(error_of(result).detail == "is missing");
    };
    check_missing(json::required_id<ItemId>(body.root(), member), "bad_id");
    check_missing(json::required_integer(body.root(), member, 0, 1), "bad_number");
    check_missing(json::required_string(body.root(), member, 1), "bad_string");
  }
}

TEST_CASE("booleans must be true or false, and strings and lists have maximum lengths", "[json][members]") {
  const Body body(
      R"({"t":true,"f":false,"n":null,"one":1,"s":"true","long":"éé","list":["a","b"],"mixed":["a",1]})");
  CHECK(json::optional_boolean(body.root(), "t", false) == true);
  CHECK(json::optional_boolean(body.root(), "f", true) == false);
  CHECK(json::optional_boolean(body.root(), "n", true) == true);
  CHECK(json::optional_boolean(body.root(), "absent", true) == true);
  check_error(json::optional_boolean(body.root(), "one", false), "bad_boolean", "one");
  check_error(json::optional_boolean(body.root(), "s", false), "bad_boolean", "s");
  CHECK(json::optional_string(body.root(), "s", 4).value() == std::optional<std::string>("true"));
  CHECK_FALSE(json::optional_string(body.root(), "n", 4)->has_value());
  CHECK(json::required_string(body.root(), "long", 4) == std::string("éé"));
  check_error(json::required_string(body.root(), "long", 3), "bad_string", "long");
  check_error(json::optional_string(body.root(), "one", 4), "bad_string", "one");
  check_error(json::required_string(body.root(), "absent", 4), "bad_string", "absent");
  CHECK(json::optional_strings(body.root(), "list", 2, 1).value() == std::vector<std::string>{"a", "b"});
  CHECK(json::optional_strings(body.root(), "absent", 2, 1)->empty());
  check_error(json::optional_strings(body.root(), "list", 1, 1), "bad_list", "list");
  check_error(json::optional_strings(body.root(), "s", 1, 1), "bad_list", "s");
  check_error(json::optional_strings(body.root(), "mixed", 2, 1), "bad_string", "mixed");
}

TEST_CASE("a body must be an object", "[json][members]") {
  CHECK(json::root_object(Body("{}").document));
  for (const char* text : {"[]", "\"x\"", "1", "null"})
    check_error(json::root_object(Body(text).document), "bad_body", "");
}
