#include "core/base/time.h"

#include <rapidcheck.h>

#include <array>
#include <catch2/catch.hpp>
#include <ctime>

#include "core/base/redis_clock.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

namespace {

std::int64_t unix_of(std::string_view text) {
  INFO(text);
  const auto at = parse_date(text, "publishedAt");
  REQUIRE(at);
  REQUIRE(*at);
  return (*at)->time_since_epoch().count();
}

}  // namespace

TEST_CASE("RFC 3339 times are read with their offset", "[time]") {
  CHECK(unix_of("1970-01-01T00:00:00Z") == 0);
  CHECK(unix_of("2026-03-06T12:00:00Z") == 1772798400);
  CHECK(unix_of("2026-03-06t12:00:00z") == 1772798400);
  CHECK(unix_of("2026-03-06T12:00:00+00:00") == 1772798400);
  CHECK(unix_of("2026-03-06T12:00:00-00:00") == 1772798400);
  CHECK(unix_of("2026-03-06T20:00:00+08:00") == 1772798400);
  CHECK(unix_of("2026-03-06T06:30:00-05:30") == 1772798400);
  CHECK(unix_of("2024-02-29T00:00:00Z") == 1709164800);
  CHECK(unix_of("9999-12-31T23:59:59Z") == kMaxUnixSeconds);
}

TEST_CASE("fractions of a second are truncated", "[time]") {
  CHECK(unix_of("2026-03-06T12:00:00.999999999Z") == 1772798400);
  CHECK(unix_of("2026-03-06T12:00:00.1+00:00") == 1772798400);
}

TEST_CASE("a leap second maps to the following second", "[time]") {
  CHECK(unix_of("2016-12-31T23:59:60Z") == unix_of("2017-01-01T00:00:00Z"));
}

TEST_CASE("without a time it is midnight, without a zone UTC", "[time]") {
  CHECK(unix_of("2026-03-06") == 1772755200);
  CHECK(unix_of("2026-03-06T12:00:00") == 1772798400);
  CHECK(unix_of("2026-03-06T12:00") == 1772798400);
  CHECK(unix_of("2026-03-06T12:00:00.5") == 1772798400);
  CHECK(unix_of("06 Mar 2026") == 1772755200);
  CHECK(unix_of("Fri, 06 Mar 2026 12:00:00") == 1772798400);
}

TEST_CASE("a space may stand for the T, and the zone may be written in several ways", "[time]") {
  for (const char* text :
       {"2026-03-06 12:00:00", "2026-03-06 12:00:00Z", "2026-03-06 12:00:00 UTC", "2026-03-06 20:00:00+08:00",
        "2026-03-06 20:00:00 +0800", "2026-03-06T20:00:00+0800", "2026-03-06 12:00"})
    CHECK(unix_of(text) == 1772798400);
}

TEST_CASE("dates of RFC 822 are read, as RSS has them", "[time]") {
  for (const char* text :
       {"Fri, 06 Mar 2026 12:00:00 GMT", "Fri, 6 Mar 2026 12:00:00 +0000", "fri, 06 mar 2026 12:00:00 gmt",
        "06 Mar 2026 12:00 UT", "Fri, 06 Mar 26 12:00:00 Z", "Fri, 06 Mar 2026 20:00:00 +0800",
        "Fri, 06 Mar 2026 07:00:00 EST", "Fri, 06 Mar 2026 05:00:00 PDT",
        "Fri,  06  Mar  2026  12:00:00  UTC", "Fri 06 Mar 2026 12:00:00 GMT",
        "Mon, 06 Mar 2026 12:00:00 GMT"})  // as written by a broken feed
    CHECK(unix_of(text) == 1772798400);
  CHECK(unix_of("Sun, 06 Nov 94 08:49:37 GMT") == 784111777);
  CHECK(unix_of("Sun, 06 Nov 094 08:49:37 GMT") == 784111777);  // RFC 2822: years since 1900
  CHECK(unix_of("Thu, 31 Dec 2015 19:00:00 EST") == 1451606400);
}

TEST_CASE("a zero date is no date", "[time]") {
  for (const char* text : {"0000-00-00", "0000-00-00 00:00:00", "0000-00-00T00:00:00", "0000-00-00T00:00:00Z",
                           "0000-00-00 00:00:00.000000"}) {
    INFO(text);
    const auto at = parse_date(text, "publishedAt");
    REQUIRE(at);
    CHECK_FALSE(*at);
  }
  for (const char* text : {"0000-00-00 00:00:01", "0000-00-01", "0000-01-00", "0001-00-00", "0000-01-01"})
    CHECK_FALSE(parse_date(text, "publishedAt"));
}

TEST_CASE("strings that are not dates are rejected, naming the member", "[time]") {
  for (const char* text : {"",
                           "2026-02-30T00:00:00Z",
                           "2025-02-29T00:00:00Z",
                           "2026-13-01T00:00:00Z",
                           "2026-00-01T00:00:00Z",
                           "2026-01-00T00:00:00Z",
                           "2026-01-01T24:00:00Z",
                           "2026-01-01T00:60:00Z",
                           "2026-01-01T00:00:61Z",
                           "2026-01-01T00:00:00.Z",
                           "2026-01-01T00:00:00+24:00",
                           "2026-01-01T00:00:00+00:60",
                           "2026-01-01T00:00:00+00",
                           "2026-01-01T00:00:00Z ",
                           " 2026-01-01T00:00:00Z",
                           "2026-1-1T00:00:00Z",
                           "+026-01-01T00:00:00Z",
                           "2026-01-01T00:00:00ZZ",
                           "26-01-01T00:00:00Z",
                           "2026-01-01T-1:00:00Z",
                           "2026-01-01T",
                           "2026-01-01T00",
                           "2026-01-01  00:00:00",
                           "2026-01-01T00:00:00 ",
                           "2026-01-01T00:00:00 +",
                           "2026-01-01T00:00:00+000",
                           "2026-01-01T00:00:00 XYZ",
                           "2026-01-01Z",
                           "01/02/2026",
                           "20260101",
                           "Foo, 06 Mar 2026 12:00:00 GMT",
                           "Fri, 06 March 2026 12:00:00 GMT",
                           "Fri, 32 Mar 2026 12:00:00 GMT",
                           "Fri, 00 Mar 2026 12:00:00 GMT",
                           "Fri, 006 Mar 2026 12:00:00 GMT",
                           "Fri, 06 Mar 20260 12:00:00 GMT",
                           "Fri, 06 Mar 2026 12:00:00 QST",
                           "Fri, 06 Mar 2026 12:00:00 GMT x",
                           "Fri, 06 Mar 2026 12:00:00 +08",
                           "Fri, Mar 2026",
                           "Fri",
                           "now",
                           "1772798400"}) {
    INFO(text);
    const auto at = parse_date(text, "publishedAt");
    REQUIRE_FALSE(at);
    CHECK(error_of(at).code == ErrorCode::kInvalid);
    CHECK(error_of(at).reason == "bad_time");
    CHECK(error_of(at).member == "publishedAt");
  }
}

TEST_CASE("times before 1970 and after 9999 are rejected, even if only the offset makes them so", "[time]") {
  CHECK_FALSE(parse_date("1969-12-31T23:59:59Z", "at"));
  CHECK_FALSE(parse_date("1970-01-01T00:00:00+00:01", "at"));
  CHECK_FALSE(parse_date("9999-12-31T23:59:59-00:01", "at"));
  CHECK(parse_date("1969-12-31T23:59:59-00:01", "at"));
  CHECK(from_unix(0, "at"));
  CHECK(from_unix(kMaxUnixSeconds, "at"));
  CHECK_FALSE(from_unix(-1, "at"));
  CHECK_FALSE(from_unix(kMaxUnixSeconds + 1, "at"));
  CHECK(error_of(from_unix(-1, "at")).reason == "bad_time");
}

TEST_CASE("a day is a UTC day", "[time]") {
  CHECK(utc_day(UnixSeconds{seconds{1772798400}}) == "20260306");
  CHECK(utc_day(**parse_date("2026-03-06T23:59:59Z", "at")) == "20260306");
  CHECK(utc_day(**parse_date("2026-03-07T00:00:00Z", "at")) == "20260307");
  CHECK(utc_day(**parse_date("2026-03-07T07:59:59+08:00", "at")) == "20260306");
  CHECK(utc_day(UnixSeconds{}) == "19700101");
  CHECK(utc_day(UnixSeconds{seconds{kMaxUnixSeconds}}) == "99991231");
}

TEST_CASE("every time in range survives formatting and parsing", "[time]") {
  CHECK(rc::check("round trip", [] {
    const UnixSeconds at{seconds{*rc::gen::inRange<std::int64_t>(0, kMaxUnixSeconds + 1)}};
    RC_ASSERT(parse_date(to_rfc3339(at), "at").value() == at);
    // The other forms of the same date.
    std::string text = to_rfc3339(at);
    text.pop_back();
    RC_ASSERT(parse_date(text, "at").value() == at);
    text[10] = ' ';
    RC_ASSERT(parse_date(text, "at").value() == at);
    RC_ASSERT(parse_date(text.substr(0, 10), "at").value() == std::chrono::floor<std::chrono::days>(at));
    const std::time_t raw = unix_s(at);
    std::tm parts{};
    gmtime_r(&raw, &parts);
    std::array<char, 64> rfc822{};
    std::strftime(rfc822.data(), rfc822.size(), "%a, %d %b %Y %H:%M:%S %z", &parts);
    RC_ASSERT(parse_date(rfc822.data(), "at").value() == at);
    RC_ASSERT(utc_day(at) ==
              to_rfc3339(at).substr(0, 4) + to_rfc3339(at).substr(5, 2) + to_rfc3339(at).substr(8, 2));
  }));
}

TEST_CASE("any text is a date, no date or an error, and no date is out of range", "[time]") {
  CHECK(rc::check("soup", [] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("0123456789-: TZ+.,FriMagmt")));
    const auto at = parse_date(text, "at");
    if (at && *at) RC_ASSERT(from_unix(unix_s(**at), "at").has_value());
  }));
}

TEST_CASE("The clock offset changes only as far as a reply contradicts it", "[time]") {
  REQUIRE_FALSE(redis_clock_offset());
  const std::chrono::seconds at(1'000'000'000), slow(3), hour(3600);
  update_redis_clock(at, since_boot());
  const auto agreed = *redis_clock_offset();
  // The reading may be up to three seconds old, so this is consistent.
  update_redis_clock(at, since_boot() - slow);
  CHECK(*redis_clock_offset() == agreed);
  update_redis_clock(at + 2 * slow, since_boot() - slow);
  const auto ahead = *redis_clock_offset();
  CHECK((ahead > agreed + slow && ahead <= agreed + 2 * slow));
  // Adjusts to the latest time that the reply allows, not to the earliest.
  update_redis_clock(at - hour, since_boot() - slow);
  CHECK((*redis_clock_offset() > agreed - hour && *redis_clock_offset() <= agreed - hour + slow));
  // Restores the real time for later tests.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  set_redis_clock_offset(std::chrono::duration_cast<std::chrono::microseconds>(now) - since_boot());
}
