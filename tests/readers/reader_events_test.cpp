#include "core/readers/reader_events.h"

#include <catch2/catch.hpp>

#include "tests/readers/fakes.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

namespace {

const ReaderId kReader = ReaderId::trusted("r");
const ItemId kItem = ItemId::trusted("i");
const Error kAway{ErrorCode::kUnavailable, "redis_unavailable", {}, {}};
const Error kUnknown{ErrorCode::kUnknownOutcome, "redis_timeout", {}, {}};
const Error kFull{ErrorCode::kUnavailable, "stream_full", {}, {}};
const Error kNoItem{ErrorCode::kNotFound, "unknown_item", "topicId", {}};

std::vector<readers::ReaderEvent> events(int count) {
  std::vector<readers::ReaderEvent> out;
  for (int i = 0; i < count; ++i)
    out.push_back({kReader, ItemId::trusted(std::to_string(i)), readers::Interaction::kLike, {}, {}});
  return out;
}

// The results of all writes that can be spooled.
std::vector<Result<readers::RecordResult>> all_writes(FakeReaderStore& store) {
  return {run_ready(readers::record_view(store, {kReader, kItem})),
          run_ready(readers::clear_views(store, kReader, readers::ViewKind::kTopic)),
          run_ready(readers::remove_view(store, kReader, readers::ViewKind::kTopic, kItem)),
          run_ready(readers::record_interaction(store, events(1)[0])),
          run_ready(readers::dismiss(store, {kReader, kItem, {}, {}})),
          run_ready(readers::undo_dismissal(store, kReader, kItem))};
}

}  // namespace

TEST_CASE("writes that Redis accepts are not spooled", "[reader_events]") {
  FakeReaderStore store;
  for (const auto& written : all_writes(store)) {
    REQUIRE(written);
    CHECK_FALSE(written->queued);
  }
  CHECK(store.spooled.empty());
}

TEST_CASE("writes that Redis did not accept, or may have, are spooled until the spool is full",
          "[reader_events]") {
  for (const Error& error : {kAway, kUnknown}) {
    FakeReaderStore store;
    store.error = error;
    for (const auto& written : all_writes(store)) {
      REQUIRE(written);
      CHECK(written->queued);
    }
    CHECK(store.spooled == std::vector<std::string>{"i", "clear", "i", "0", "i", "i"});
    store.spool_capacity = 0;
    for (const auto& written : all_writes(store)) CHECK(error_of(written).reason == "spool_full");
  }
}

TEST_CASE("writes rejected as invalid or because of a full stream are not spooled", "[reader_events]") {
  for (const Error& error : {kFull, kNoItem}) {
    FakeReaderStore store;
    store.results.assign(6, tl::unexpected(error));
    for (const auto& written : all_writes(store)) CHECK(error_of(written).reason == error.reason);
    CHECK(store.spooled.empty());
  }
}

TEST_CASE("each of several events has its own result", "[reader_events]") {
  FakeReaderStore store;
  store.results = {{}, tl::unexpected(kNoItem), tl::unexpected(kAway), tl::unexpected(kFull), {}};
  const auto answers = run_ready(readers::record_interactions(store, events(5)));
  REQUIRE(answers.size() == 5);
  CHECK((answers[0] && !answers[0]->queued));
  CHECK(error_of(answers[1]).reason == "unknown_item");
  CHECK((answers[2] && answers[2]->queued));
  CHECK(error_of(answers[3]).reason == "stream_full");
  CHECK((answers[4] && !answers[4]->queued));
  CHECK(store.spooled == std::vector<std::string>{"2"});
}

TEST_CASE("the spool takes as many of several events as fit", "[reader_events]") {
  FakeReaderStore store;
  store.error = kAway;
  store.spool_capacity = 2;
  const auto answers = run_ready(readers::record_interactions(store, events(4)));
  REQUIRE(answers.size() == 4);
  CHECK((answers[0] && answers[0]->queued));
  CHECK((answers[1] && answers[1]->queued));
  CHECK(error_of(answers[2]).reason == "spool_full");
  CHECK(error_of(answers[3]).reason == "spool_full");
}
