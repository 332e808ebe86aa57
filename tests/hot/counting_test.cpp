#include "core/hot/counting.h"

#include <catch2/catch.hpp>

#include "tests/hot/fakes.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

TEST_CASE("An event that Redis takes is counted, not spooled", "[counting]") {
  FakeHotStore store;
  const auto counted = run_ready(hot::track(store, {}));
  REQUIRE(counted);
  CHECK_FALSE(counted->queued);
  CHECK(counted->result.pv == 1);
  CHECK(store.spooled == 0);
}

TEST_CASE("An event that was certainly not applied waits in the spool", "[counting]") {
  FakeHotStore store;
  store.failing = true;
  store.error = Error{ErrorCode::kUnavailable, "redis_unavailable", {}, {}};
  CHECK(run_ready(hot::track(store, {}))->queued);
  CHECK(run_ready(hot::view(store, {}))->queued);
  CHECK(store.spooled == 2);
  store.spool_full = true;
  CHECK(error_of(run_ready(hot::track(store, {}))).reason == "spool_full");
}

TEST_CASE("An event whose outcome is unknown is repeated only if it has an event id", "[counting]") {
  FakeHotStore store;
  store.failing = true;
  store.error = Error{ErrorCode::kUnknownOutcome, "redis_timeout", {}, {}};
  CHECK(error_of(run_ready(hot::track(store, {}))).code == ErrorCode::kUnknownOutcome);
  CHECK(store.spooled == 0);
  hot::TrackEvent event;
  event.event_id = EventId::trusted("e1");
  CHECK(run_ready(hot::track(store, event))->queued);
  CHECK(store.spooled == 1);
}

TEST_CASE("An event that is rejected as invalid is never spooled", "[counting]") {
  FakeHotStore store;
  store.failing = true;
  store.error = Error{ErrorCode::kNotFound, "unknown_item", {}, {}};
  CHECK(error_of(run_ready(hot::view(store, {}))).code == ErrorCode::kNotFound);
  CHECK(store.spooled == 0);
}
