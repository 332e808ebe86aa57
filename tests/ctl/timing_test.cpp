#include "scripts/ctl/replay/timing.h"

#include <rapidcheck.h>

#include <catch2/catch.hpp>

using namespace freshet;
using namespace freshet::ctl;

namespace {
UnixSeconds at(std::int64_t s) { return UnixSeconds{seconds{s}}; }
}  // namespace

TEST_CASE("a speed is a positive number or max", "[ctl]") {
  CHECK(parse_speed("600") == 600.0);
  CHECK(parse_speed("600x") == 600.0);
  CHECK(parse_speed("0.5") == 0.5);
  CHECK(parse_speed("max") == kMaxSpeed);
  for (const char* wrong : {"", "x", "0", "-1", "nan", "inf", "6oo", "600xx"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_speed(wrong));
  }
}

TEST_CASE("a time is a date, unix seconds or now", "[ctl]") {
  CHECK(parse_time("now", at(5)) == at(5));
  CHECK(parse_time("1520874045", at(5)) == at(1520874045));
  CHECK(parse_time("2018-03-12T17:00:45Z", at(5)) == at(1520874045));
  CHECK(parse_time("2018-03-12", at(5)) == at(1520812800));
  CHECK_FALSE(parse_time("0000-00-00", at(5)));
  CHECK_FALSE(parse_time("yesterday", at(5)));
}

TEST_CASE("events are due at the requested speed, and at once at max", "[ctl]") {
  CHECK(due_offset(at(100), at(700), 600) == std::chrono::seconds(1));
  CHECK(due_offset(at(100), at(101), 0.5) == std::chrono::seconds(2));
  CHECK(due_offset(at(100), at(100), 7) == std::chrono::seconds(0));
  CHECK(due_offset(at(100), at(1000000), kMaxSpeed) == std::chrono::seconds(0));
  // 350 days at a millionth of the speed would overflow the clock.
  CHECK(due_offset(at(0), at(30240000), 1e-6) > std::chrono::hours(24 * 365));
}

TEST_CASE("a shifted log ends when its replay does", "[ctl]") {
  CHECK(shift_to_now(at(0), at(6000), at(1000000), kMaxSpeed) == seconds{994000});
  CHECK(shift_to_now(at(0), at(6000), at(1000000), 600) == seconds{994010});
}

TEST_CASE("a shifted log is never in the future at log speed or faster", "[ctl]") {
  CHECK(rc::check("published + shift ≤ now", [] {
    const auto first = at(*rc::gen::inRange<std::int64_t>(0, 2000000000));
    const auto last = first + seconds{*rc::gen::inRange<std::int64_t>(0, 40000000)};
    const auto event = first + seconds{*rc::gen::inRange<std::int64_t>(0, (last - first).count() + 1)};
    const auto now = at(*rc::gen::inRange<std::int64_t>(0, 2000000000));
    const double speed = *rc::gen::inRange(1, 1000000);
    const auto shift = shift_to_now(first, last, now, speed);
    const auto clock = now + due_offset(first, event, speed);
    RC_ASSERT(event + shift <= clock + std::chrono::microseconds(1));
  }));
}
