#include "scripts/ctl/replay/replay.h"

#include <catch2/catch.hpp>

using namespace freshet;
using namespace freshet::ctl;

namespace {
UnixSeconds at(std::int64_t s) { return UnixSeconds{seconds{s}}; }
}  // namespace

TEST_CASE("a report has the members of its route", "[ctl]") {
  const LogEvent event{at(100), "VIEW", "-34", "7", "s", "agent", 1200};
  CHECK(report_body(Route::kTrack, event, 90, 1, "") ==
        R"({"articleId":"-34","userId":"7","dwellMs":1200,"sessionId":"s","publishedAt":90})");
  CHECK(
      report_body(Route::kTrack, event, 90, 2, "e1") ==
      R"({"articleId":"-34","userId":"7","dwellMs":1200,"sessionId":"s-r2","publishedAt":90,"eventId":"e1"})");
  CHECK(report_body(Route::kViews, event, 90, 1, "e1") ==
        R"({"articleId":"-34","fingerprint":"7","publishedAt":90,"eventId":"e1"})");
}

TEST_CASE("a pause of half an hour ends a derived session, and sessions of the log are kept", "[ctl]") {
  std::vector<LogEvent> events;
  for (const auto& [t, user, session] :
       {std::tuple{0, "a", ""}, {1799, "a", ""}, {1800, "b", ""}, {3599, "a", ""}, {3601, "c", "theirs"}}) {
    events.push_back({at(t), "", "i", user, session, "", 0});
  }
  derive_sessions(events);
  std::vector<std::string> sessions;
  for (const LogEvent& each : events) sessions.push_back(each.session);
  CHECK(sessions == std::vector<std::string>{"a-1", "a-1", "b-1", "a-2", "theirs"});
}

TEST_CASE("the outcome of an event is read from the reply", "[ctl]") {
  CHECK(outcome_of(200, R"({"pv":1,"uv":1,"avg_dwell_ms":0,"score":4})") == ReportOutcome::kCounted);
  CHECK(outcome_of(200, R"({"ok":true,"dedup":true})") == ReportOutcome::kDedup);
  CHECK(outcome_of(200, R"({"pv":0,"counted":false})") == ReportOutcome::kBot);
  CHECK(outcome_of(202, R"({"ok":true,"queued":true})") == ReportOutcome::kQueued);
  CHECK(outcome_of(429, "") == ReportOutcome::kRefused);
  CHECK(outcome_of(503, "") == ReportOutcome::kFailed);
  CHECK(outcome_of(302, "") == ReportOutcome::kFailed);
  CHECK(outcome_of(200, "<html>") == ReportOutcome::kFailed);
}
