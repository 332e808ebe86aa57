#include "scripts/ctl/commands/schedule.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/base/time.h"

using namespace freshet;
using namespace freshet::ctl;

namespace {

std::time_t at(const char* text) { return unix_s(**parse_date(text, "time")); }

// Sets TZ for the lifetime of the object.
class Zone {
 public:
  explicit Zone(const char* name) {
    setenv("TZ", name, 1);
    tzset();
  }
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;
  ~Zone() {
    unsetenv("TZ");
    tzset();
  }
};

std::string unit(const std::string& name) {
  std::ifstream file(FRESHET_SOURCE_DIR "/systemd/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("jobs at intervals are due at multiples of the interval", "[schedule]") {
  CHECK(next_due({-1, 0, 60}, at("2026-03-06T12:00:00Z")) == at("2026-03-06T13:00:00Z"));
  const JobTimes every_ten{-1, 0, 10};
  CHECK(next_due(every_ten, at("2026-03-06T12:00:00Z")) == at("2026-03-06T12:10:00Z"));
  CHECK(next_due(every_ten, at("2026-03-06T12:09:59Z")) == at("2026-03-06T12:10:00Z"));
  CHECK(next_due(every_ten, at("2026-03-06T23:59:00Z")) == at("2026-03-07T00:00:00Z"));
}

TEST_CASE("daily jobs are due at their local time, in every zone and across changes of the clock",
          "[schedule]") {
  const JobTimes daily{3, 30, 0};
  {
    const Zone utc("UTC");
    CHECK(next_due(daily, at("2026-03-06T03:29:59Z")) == at("2026-03-06T03:30:00Z"));
    CHECK(next_due(daily, at("2026-03-06T03:30:00Z")) == at("2026-03-07T03:30:00Z"));
    CHECK(next_due(daily, at("2026-12-31T12:00:00Z")) == at("2027-01-01T03:30:00Z"));
  }
  // Central European time, whose summer time begins on 29 March 2026 at 01:00 UTC.
  const Zone berlin("CET-1CEST,M3.5.0,M10.5.0/3");
  CHECK(next_due(daily, at("2026-03-28T12:00:00Z")) == at("2026-03-29T01:30:00Z"));
  CHECK(next_due(daily, at("2026-03-29T01:30:00Z")) == at("2026-03-30T01:30:00Z"));
  CHECK(next_due(daily, at("2026-10-24T12:00:00Z")) == at("2026-10-25T02:30:00Z"));
}

TEST_CASE("the systemd units have the times and arguments that the schedule's jobs copy", "[schedule]") {
  CHECK(unit("freshet-train.timer").find("OnCalendar=*-*-* 03:30:00\n") != std::string::npos);
  CHECK(unit("freshet-tune.timer").find("OnCalendar=hourly\n") != std::string::npos);
  CHECK(unit("freshet-check.timer").find("OnCalendar=*-*-* 05:00:00\n") != std::string::npos);
  CHECK(unit("freshet-fill.timer").find("OnCalendar=*:0/10\n") != std::string::npos);
  CHECK(unit("freshet-fetch-model.timer").find("OnCalendar=*:0/10\n") != std::string::npos);
  CHECK(unit("freshet-train.service").find("freshetctl train --quiet --config") != std::string::npos);
  CHECK(unit("freshet-tune.service").find("freshetctl tune --if-due --quiet --config") != std::string::npos);
  CHECK(unit("freshet-check.service").find("freshetctl check --sweep --quiet --config") != std::string::npos);
  CHECK(unit("freshet-fill.service").find("freshetctl push-recommendations discover --config") !=
        std::string::npos);
  CHECK(unit("freshet-fetch-model.service").find("freshetctl fetch-model") != std::string::npos);
  CHECK(unit("freshet-import@.timer").find("OnCalendar=*:0/10\n") != std::string::npos);
  CHECK(unit("freshet-import@.service").find("--public-only --quiet --config") != std::string::npos);
}
