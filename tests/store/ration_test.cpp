// A visitor's token bucket: what it lets pass, that a refusal changes nothing, and that it leaves no trace.
#include <chrono>
#include <thread>

#include "tests/store/fixture.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr std::int64_t kHour = 3'600'000'000;  // µs

feed::Ration ration(const std::string& who, std::int64_t interval_us = kHour, std::int64_t burst = 3) {
  return {"track", who, interval_us, interval_us * (burst - 1)};
}

struct Limited : Fixture {
  Result<feed::TrackCounts> track_as(const std::string& who, const std::string& id = "a",
                                     const std::string& event = {}) {
    auto one = report(id, who, 1000);
    one.event = EventId::trusted(event);
    one.ration = ration(who);
    return wait(hot->track(one));
  }
  Result<feed::ViewOutcome> view_as(const std::string& who, const std::string& fingerprint) {
    auto one = seen("a", fingerprint);
    one.ration = ration(who);
    return wait(hot->view(one));
  }
  // The key as if it had been made `us` earlier.
  void let_pass(const std::string& key, std::int64_t us) {
    const std::int64_t left = command("PTTL", key).integer().value_or(0) - us / 1000;
    left > 0 ? command("PEXPIRE", key, left) : command("DEL", key);
  }
};

}  // namespace

TEST_CASE_METHOD(Limited, "as many reports as the burst pass at once, and the next is told how long to wait",
                 "[ration]") {
  for (int i = 0; i < 3; ++i) REQUIRE(track_as("v"));
  const auto refused = track_as("v");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kRateLimited);
  CHECK(refused.error().reason == "rate_limited");
  CHECK(store::whole(refused.error().detail) > 3590);
  CHECK(store::whole(refused.error().detail) <= 3600);
  CHECK(track_as("w"));
}

TEST_CASE_METHOD(Limited, "a refused report changes nothing, and takes no token either", "[ration]") {
  for (int i = 0; i < 3; ++i) REQUIRE(track_as("v", "a"));
  const std::string key = keys().limit("track", "v");
  const std::int64_t full = command("PEXPIRETIME", key).integer().value_or(0);
  const auto before = all_keys();
  for (int i = 0; i < 5; ++i) CHECK_FALSE(track_as("v", "b"));
  CHECK_FALSE(track_as("v", "a"));
  CHECK(all_keys() == before);
  CHECK(command("PEXPIRETIME", key).integer().value_or(0) == full);
  CHECK(stats("a").pv == 1);
}

TEST_CASE_METHOD(Limited, "a token comes with each interval, at most the burst of them", "[ration]") {
  for (int i = 0; i < 3; ++i) REQUIRE(track_as("v"));
  const std::string key = keys().limit("track", "v");
  let_pass(key, kHour);
  CHECK(track_as("v"));
  CHECK_FALSE(track_as("v"));
  let_pass(key, 100 * kHour);
  for (int i = 0; i < 3; ++i) CHECK(track_as("v"));
  CHECK_FALSE(track_as("v"));
}

TEST_CASE_METHOD(Limited, "the key is gone when the bucket is full", "[ration]") {
  const std::string key = keys().limit("track", "v");
  REQUIRE(track_as("v"));
  CHECK(command("PTTL", key).integer().value_or(0) <= kHour / 1000);
  CHECK(command("PTTL", key).integer().value_or(0) > kHour / 1000 - 60'000);
  REQUIRE(track_as("v"));
  CHECK(command("PTTL", key).integer().value_or(0) > 2 * kHour / 1000 - 60'000);
  CHECK(command("PTTL", key).integer().value_or(0) <= 2 * kHour / 1000);
}

TEST_CASE_METHOD(Limited, "a burst of one lets one pass in an interval", "[ration]") {
  auto one = report("a", "v", 1);
  one.ration = ration("v", kHour, 1);
  CHECK(wait(hot->track(one)));
  CHECK_FALSE(wait(hot->track(one)));
}

TEST_CASE_METHOD(Limited, "a report that is repeated costs a token, and after the wait it has its old answer",
                 "[ration]") {
  const auto first = track_as("v", "a", "e");
  REQUIRE(first);
  for (int i = 0; i < 2; ++i) CHECK(track_as("v", "a", "e")->pv == first->pv);
  CHECK_FALSE(track_as("v", "a", "e"));
  let_pass(keys().limit("track", "v"), kHour);
  CHECK(track_as("v", "a", "e")->uv == first->uv);
  CHECK(stats("a").pv == 1);
}

TEST_CASE_METHOD(Limited, "a view costs a token of its visitor, whatever its fingerprint says", "[ration]") {
  for (const char* fingerprint : {"f1", "f2", "f3"}) REQUIRE(view_as("v", fingerprint));
  const auto before = all_keys();
  const auto refused = view_as("v", "f4");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kRateLimited);
  CHECK(all_keys() == before);
  CHECK(stats("a").views_pv == 3);
}

TEST_CASE_METHOD(Limited, "without a limit there is no key", "[ration]") {
  for (int i = 0; i < 20; ++i) track(report("a", "v", 1));
  for (const auto& key : all_keys()) CHECK_FALSE(key.starts_with("limit:"));
}

TEST_CASE_METHOD(Limited, "with hash tags the bucket lies in the item's slot, one for each item",
                 "[ration]") {
  hash_tags = true;
  open();
  for (int i = 0; i < 3; ++i) REQUIRE(track_as("v", "a"));
  CHECK_FALSE(track_as("v", "a"));
  CHECK(track_as("v", "b"));
  CHECK(exists("limit:track:{a}:v"));
  const auto slot = [&](const std::string& key) {
    return command("CLUSTER", "KEYSLOT", key).integer().value_or(-1);
  };
  CHECK(slot(keys().limit_of_item("track", "a", "v")) == slot(keys().pv("a")));
  for (const char* fingerprint : {"f1", "f2", "f3"}) REQUIRE(view_as("v2", fingerprint));
  CHECK_FALSE(view_as("v2", "f4"));
  CHECK(score("{hot}:rank", "a"));
}

TEST_CASE_METHOD(Limited, "what waited in a spool was accepted, and costs nothing when it is replayed",
                 "[ration]") {
  auto one = report("a", "v", 1000);
  one.ration = ration("v", kHour, 1);
  REQUIRE(wait(hot->track(one)));
  one.session = SessionId::trusted("s2");
  REQUIRE(hot->track_later(one));
  auto view = seen("a", "f");
  view.ration = ration("v", kHour, 1);
  REQUIRE(hot->view_later(view));
  later.replay();
  CHECK(stats("a").pv == 2);
  CHECK(stats("a").views_pv == 1);
}

TEST_CASE_METHOD(Limited, "in the long run a visitor gets the rate and one burst, never more", "[ration]") {
  constexpr std::int64_t kInterval = 20'000;  // µs
  constexpr int kBurst = 10;
  auto one = report("a", "v", 1);
  one.ration = ration("v", kInterval, kBurst);
  const auto clock = [&] {
    const auto time = command("TIME");
    return store::whole(store::text_at(time, 0)) * 1'000'000 + store::whole(store::text_at(time, 1));
  };
  const std::int64_t begin = clock();
  int passed = 0;
  std::int64_t end = begin;
  while (passed < 3 * kBurst) {
    if (wait(hot->track(one))) ++passed;
    end = clock();
    REQUIRE(passed <= kBurst + (end - begin) / kInterval + 1);
  }
  CHECK(end - begin >= (3 * kBurst - kBurst - 1) * kInterval);
}

TEST_CASE_METHOD(Limited, "what a report costs Redis with a limit and without", "[.bench]") {
  constexpr int kReports = 100'000;
  const auto measure = [&](const std::string& what, bool limited, bool repeated) {
    server().flush();
    command("CONFIG", "RESETSTAT");
    for (int i = 0; i < kReports; ++i) {
      // New sessions, and heartbeats of the same.
      const std::string who = "v" + std::to_string(repeated ? i % 1000 : i);
      auto one = report("a" + std::to_string(i % 100), who, repeated ? i / 10 : 5000);
      one.unproven = limited;
      if (limited) one.ration = ration(who, 1, 200);
      track(one);
    }
    const std::string said = text(command("INFO", "commandstats"));
    const std::size_t at = said.find("cmdstat_evalsha:");
    WARN(what << ": " << said.substr(at, said.find('\r', at) - at));
  };
  for (const bool repeated : {false, true}) {
    const std::string kind = repeated ? "heartbeats" : "first reports";
    measure(kind + ", no limit", false, repeated);
    measure(kind + ", limit", true, repeated);
  }
}
