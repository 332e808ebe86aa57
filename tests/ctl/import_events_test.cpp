#include "scripts/ctl/replay/import_events.h"

#include <catch2/catch.hpp>

#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::ctl;
using freshet::test::error_of;

TEST_CASE("ratings of MovieLens become likes with their times", "[import]") {
  EventConverter converter(4, {});
  CHECK(converter.convert("\xEF\xBB\xBFuserId,movieId,rating,timestamp")->line.empty());
  CHECK(converter.convert("1,31,4.0,1260759144")->line ==
        R"({"userId":"1","topicId":"31","kind":"like","at":1260759144})");
  CHECK(converter.convert("1,32,5,1260759145")->line ==
        R"({"userId":"1","topicId":"32","kind":"like","at":1260759145})");
  CHECK(converter.convert("1,33,3.5,1260759144")->left_out == "ratings below 4");
  CHECK(error_of(converter.convert("1,33,good,1260759144")).detail == "rating: not a number");
  CHECK(error_of(converter.convert("1,33,nan,1260759144")).detail == "rating: not a number");
  CHECK(error_of(converter.convert("1,33,inf,1260759144")).detail == "rating: not a number");
  CHECK(error_of(converter.convert("1,33,5")).detail == "number of fields differs from the header");
  CHECK(error_of(converter.convert("1,33,5,")).detail == "at: is missing");
}

TEST_CASE("events of NDJSON become interactions", "[import]") {
  EventConverter converter(3, {{"vote", "like"}});
  const auto line = [&](const char* text) { return converter.convert(text)->line; };
  CHECK(line(R"({"user":"u","item":7,"at":"2026-03-06T12:00:00Z","type":"FAVORITE"})") ==
        R"({"userId":"u","topicId":"7","kind":"favorite","at":"2026-03-06T12:00:00Z"})");
  CHECK(line(R"({"user":"u","item":"i","at":10,"type":"vote","dwellMs":5})") ==
        R"({"userId":"u","topicId":"i","kind":"like","at":10})");
  CHECK(line(R"({"user":"u","item":"i","at":10,"rating":3.5})") ==
        R"({"userId":"u","topicId":"i","kind":"like","at":10})");
  const auto left_out = [&](const char* text) { return converter.convert(text)->left_out; };
  CHECK(left_out(R"({"user":"u","item":"i","at":10,"type":"view"})") ==
        "views, which are counted when they happen");
  CHECK(left_out(R"({"user":"u","item":"i","at":10,"type":"ask"})") == "events of the type ask");
  CHECK(left_out(R"({"user":"u","item":"i","at":10,"rating":2})") == "ratings below 3");
  CHECK_FALSE(converter.convert("{broken"));
  CHECK_FALSE(converter.convert("[]"));
}

TEST_CASE("a table of events needs its columns", "[import]") {
  CHECK(EventConverter(4, {}).convert("Type,Item_ID,user id,at,other")->line.empty());
  for (const char* header : {"userId,movieId,timestamp", "movieId,rating,timestamp", "a,b", "<xml>"}) {
    CAPTURE(header);
    CHECK(error_of(EventConverter(4, {}).convert(header)).reason == "bad_header");
  }
}
