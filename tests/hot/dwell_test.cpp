// Untrusted dwell times: a session can claim no more than it can have lasted.
#include <rapidcheck.h>

#include "tests/support/store_fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr std::int64_t kMaxInitialDwell = 30'000;
constexpr std::int64_t kSlack = 5'000;
constexpr std::int64_t kCap = 180'000;

struct DwellFixture : Fixture {
  std::int64_t report_dwell(std::int64_t dwell_ms, const std::string& session = "s", bool unproven = true) {
    auto one = track_event("a", "v", dwell_ms, session);
    one.untrusted_dwell = unproven;
    track(one);
    return stats("a").dwell_sum_ms;
  }
  // As if the session's reports so far had arrived `s` seconds earlier.
  void advance(std::int64_t s, const std::string& session = "s") {
    const std::string key = keys().session("a", session);
    const std::string value = text(command("GET", key));
    const std::size_t blank = value.find(' ');
    const std::int64_t begin = redis::to_int(value.substr(blank + 1)) - s * 1000;
    command("SET", key, value.substr(0, blank + 1) + std::to_string(begin), "KEEPTTL");
  }
};

}  // namespace

TEST_CASE_METHOD(DwellFixture, "a session's first report claims at most hot.max_initial_dwell", "[dwell]") {
  CHECK(report_dwell(kCap) == kMaxInitialDwell);
  CHECK(report_dwell(29'000, "s2") == kMaxInitialDwell + 29'000);
  settings.engagement.max_initial_dwell_ms = 0;
  open();
  CHECK(report_dwell(kCap, "s3") == kMaxInitialDwell + 29'000);
}

TEST_CASE_METHOD(DwellFixture, "later reports claim at most the first claim plus the elapsed time",
                 "[dwell]") {
  CHECK(report_dwell(5'000) == 5'000);
  const std::int64_t at_once = report_dwell(kCap);
  CHECK(at_once >= 5'000 + kSlack);
  CHECK(at_once <= 5'000 + kSlack + 2'000);  // Redis' resolution of a second, and a busy host
  advance(60);
  CHECK(report_dwell(40'000) == 40'000);
  const std::int64_t then = report_dwell(kCap);
  CHECK(then >= 65'000 + kSlack);
  CHECK(then <= 65'000 + kSlack + 5'000);
  advance(200);
  CHECK(report_dwell(kCap) == kCap);
}

TEST_CASE_METHOD(DwellFixture, "reports sent by freshet.js are counted in full", "[dwell]") {
  std::int64_t shown = 5;
  CHECK(report_dwell(shown * 1000) == shown * 1000);
  for (int i = 0; i < 10; ++i) {
    advance(15);
    shown += 15;
    CHECK(report_dwell(shown * 1000) == shown * 1000);
  }
  CHECK(stats("a").pv == 1);
}

TEST_CASE_METHOD(DwellFixture,
                 "trusted reports are not limited, and their sessions continue for untrusted clients",
                 "[dwell]") {
  CHECK(report_dwell(kCap, "s", false) == kCap);
  CHECK(report_dwell(2'000, "s2", false) == kCap + 2'000);
  const std::int64_t cut = report_dwell(kCap, "s2") - kCap;
  CHECK(cut >= 2'000 + kSlack);
  CHECK(cut <= 2'000 + kSlack + 5'000);
}

TEST_CASE_METHOD(DwellFixture, "without a session window each report counts as a first one", "[dwell]") {
  settings.engagement.session_window = seconds{0};
  open();
  CHECK(report_dwell(kCap) == kMaxInitialDwell);
  CHECK(report_dwell(kCap) == 2 * kMaxInitialDwell);
}

TEST_CASE_METHOD(DwellFixture, "a repeated report returns the first reply and claims nothing more",
                 "[dwell]") {
  auto one = track_event("a", "v", kCap, "s");
  one.untrusted_dwell = true;
  one.event_id = EventId::trusted("e");
  const auto first = track(one);
  advance(100);
  const auto again = track(one);
  CHECK(again.avg_dwell_ms == first.avg_dwell_ms);
  CHECK(stats("a").dwell_sum_ms == kMaxInitialDwell);
}

TEST_CASE_METHOD(DwellFixture, "a spooled report counts with its own time", "[dwell]") {
  const auto spooled = [&](std::int64_t dwell_ms, std::int64_t s_ago) {
    auto one = track_event("a", "v", dwell_ms, "s");
    one.untrusted_dwell = true;
    one.event_id = EventId::trusted("e" + std::to_string(dwell_ms));
    one.occurred_at = now() - seconds{s_ago};
    track(one);
    return stats("a").dwell_sum_ms;
  };
  // In order: 5 s, and 65 s a minute later.
  CHECK(spooled(5'000, 100) == 5'000);
  CHECK(spooled(65'000, 40) == 65'000);
  // A live report in between is limited like that of a new session; the late ones extend the
  // session's start into the past.
  server().flush_all();
  CHECK(report_dwell(120'000) == kMaxInitialDwell);
  CHECK(spooled(20'000, 130) == kMaxInitialDwell);
  CHECK(report_dwell(121'000) == 121'000);
}

TEST_CASE_METHOD(DwellFixture,
                 "no session claims more than its first claim plus the elapsed time, whatever it reports",
                 "[dwell]") {
  CHECK(rc::check("bounded", [this] {
    server().flush_all();
    open();
    std::int64_t passed = 0, first = -1, greatest = 0;
    const auto reports = *rc::gen::inRange(1, 12);
    for (int i = 0; i < reports; ++i) {
      const auto dwell = *rc::gen::weightedOneOf<std::int64_t>(
          {{3, rc::gen::inRange<std::int64_t>(0, 40'000)}, {1, rc::gen::inRange<std::int64_t>(0, kCap + 1)}});
      const std::int64_t sum = report_dwell(dwell);
      if (first < 0) {
        first = std::min(dwell, kMaxInitialDwell);
        RC_ASSERT(sum == first);
      }
      const std::int64_t bound = first + passed + kSlack;
      RC_ASSERT(sum >= greatest);                        // never decreases
      RC_ASSERT(sum <= std::max(bound + 3'000, first));  // whole seconds, and the host may be busy
      if (i > 0) RC_ASSERT(sum >= std::min({dwell, bound - 1'000, kCap}));  // plausible claims are accepted
      greatest = sum;
      const auto s = *rc::gen::inRange<std::int64_t>(0, 40);
      advance(s);
      passed += s * 1000;
    }
    RC_ASSERT(stats("a").pv == 1);
  }));
}
