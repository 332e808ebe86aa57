#include "fcgi/process/scoreboard.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

TEST_CASE("totals are sums over slots and keep what dead workers had counted", "[process]") {
  Scoreboard board(2);
  WorkerSlot& slot = board.slots()[1];
  slot.state = WorkerState::kReady;
  slot.requests = 5;
  slot.connections = 3;
  slot.max_in_flight = 4;
  slot.redis_ready = 1;
  slot.refused[static_cast<std::size_t>(Refusal::kBot)] = 2;
  board.slots()[0].requests = 1;
  board.retire(slot);
  const Totals totals = board.totals();
  CHECK(totals.requests == 6);
  CHECK(totals.refused[static_cast<std::size_t>(Refusal::kBot)] == 2);
  CHECK(totals.max_in_flight == 4);
  CHECK(totals.connections == 0);
  CHECK(totals.workers == 0);
  CHECK(totals.redis_ready == 0);
  CHECK(slot.requests == 0);
  CHECK(slot.state == WorkerState::kEmpty);
}

TEST_CASE("what a route's requests took outlives the worker that served them", "[process]") {
  Scoreboard board(2);
  for (WorkerSlot& slot : board.slots()) {
    slot.state = WorkerState::kReady;
    slot.routes[3].latency.add(std::chrono::microseconds(400));
    slot.routes[3].status[1] = 1;
    slot.loop_iterations.add(std::chrono::microseconds(40));
    slot.redis_errors_by_class[2] = 5;
    slot.background_queued = 4;
    slot.detached = 1;
  }
  board.retire(board.slots()[0]);
  const Totals totals = board.totals();
  CHECK(totals.routes[3].latency.counts[duration_bucket(std::chrono::microseconds(400))] == 2);
  CHECK(totals.routes[3].latency.sum_us == 800);
  CHECK(totals.routes[3].latency.count() == 2);
  CHECK(totals.routes[3].status[1] == 2);
  CHECK(totals.routes[2].latency.count() == 0);
  CHECK(totals.loop_iterations.count() == 2);
  CHECK(totals.redis_errors_by_class[2] == 10);
  CHECK(totals.background_queued == 4);  // what the dead one had queued is in its spool, or lost
  CHECK(totals.detached == 1);
}

TEST_CASE("what a worker's loop is at is named by its stage and route", "[process]") {
  Scoreboard board(1);
  WorkerSlot& slot = board.slots()[0];
  CHECK(board.phase_text(slot) == "idle");
  board.set_route_name(3, "GET /api/hot");
  slot.phase = pack_phase(RequestPhase::kRank, 3);
  CHECK(board.phase_text(slot) == "rank GET /api/hot");
  board.set_route_name(4, std::string(200, 'x'));
  CHECK(board.route_name(4) == std::string(63, 'x'));
  CHECK(board.route_name(kMaxRoutes).empty());
}

TEST_CASE("a quantile is the bound that its share of the durations does not exceed", "[process]") {
  HistogramTotals histogram;
  CHECK(histogram.quantile_us(0.99) == 0);
  histogram.counts[0] = 98;
  histogram.counts[4] = 2;
  CHECK(histogram.quantile_us(0.5) == kDurationBounds[0]);
  CHECK(histogram.quantile_us(0.99) == kDurationBounds[4]);
  histogram.counts[kDurationBuckets - 1] = 10000;
  CHECK(histogram.quantile_us(0.99) == kDurationBounds.back());
}

TEST_CASE("a request is shown whole, whatever its worker writes meanwhile", "[process]") {
  Scoreboard board(1);
  WorkerSlot& slot = board.slots()[0];
  auto& stop = board.pool().respawns;
  const pid_t writer = fork();
  if (writer == 0) {
    for (std::int64_t i = 0; stop == 0; ++i) {
      RequestSnapshot shown{.received_us = i, .duration_us = i, .content_length = i};
      shown.path.fill(static_cast<char>('a' + i % 26));
      slot.request.store(shown);
    }
    _exit(0);
  }
  std::set<std::int64_t> seen;
  bool whole = true;
  while (seen.size() < 1000) {
    const RequestSnapshot shown = slot.request.load();
    if (shown.path[0] == 0) continue;
    seen.insert(shown.received_us);
    whole = whole && shown.received_us == shown.duration_us && shown.received_us == shown.content_length &&
            shown.path.front() == shown.path.back() &&
            shown.path[0] == static_cast<char>('a' + shown.received_us % 26);
  }
  stop = 1;
  CHECK(whole);
  CHECK(wait_for_exit(writer) == 0);
}

TEST_CASE("states and gauges are of living workers", "[process]") {
  Scoreboard board(3);
  board.slots()[0].state = WorkerState::kReady;
  board.slots()[0].in_flight = 2;
  board.slots()[1].state = WorkerState::kDraining;
  board.slots()[1].in_flight = 1;
  board.slots()[2].in_flight = 9;  // nobody's
  CHECK(board.totals().workers == 2);
  CHECK(board.totals().ready == 1);
  CHECK(board.totals().in_flight == 3);
}

TEST_CASE("what one process writes another one reads", "[process]") {
  Scoreboard board(1);
  const pid_t pid = fork();
  if (pid == 0) {
    board.slots()[0].requests = 7;
    _exit(0);
  }
  REQUIRE(wait_for_exit(pid) == 0);
  CHECK(board.totals().requests == 7);
}

TEST_CASE("totals never go back while the master folds slots and workers count", "[process]") {
  Scoreboard board(4);
  auto& stop = board.pool().respawns;  // shared with the reader
  const pid_t reader = fork();
  if (reader == 0) {
    std::uint64_t highest = 0;
    while (stop == 0) {
      const std::uint64_t now = board.totals().requests;
      if (now < highest) _exit(1);
      highest = now;
    }
    // Nothing counted twice, nothing lost.
    _exit(board.totals().requests == 400000 ? 0 : 2);
  }
  for (int i = 0; i < 100000; ++i) {
    for (WorkerSlot& slot : board.slots()) slot.requests.fetch_add(1);
    board.retire(board.slots()[static_cast<std::size_t>(i) % 4]);
  }
  stop = 1;
  CHECK(wait_for_exit(reader) == 0);
}

TEST_CASE("every refusal has a name of its own", "[process]") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < static_cast<std::size_t>(Refusal::kCount); ++i)
    names.insert(refusal_name(static_cast<Refusal>(i)));
  CHECK(names.size() == static_cast<std::size_t>(Refusal::kCount));
  CHECK(names.count("") == 0);
  CHECK(refusal_name(Refusal::kBot) == "bot");
  CHECK(refusal_name(Refusal::kWriteTimeout) == "write_timeout");
}

TEST_CASE("a slot that no worker had is two pages of memory at most, also when all are looked at",
          "[process]") {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  Scoreboard board(100);
  for (WorkerSlot& slot : board.slots()) CHECK(slot.crash_journal.drain().empty());
  CHECK(board.totals().workers == 0);
  CHECK(board.totals().index_documents == -1);
  const auto slots = board.slots();
  const auto from = reinterpret_cast<std::uintptr_t>(slots.data()) / page * page;
  const std::size_t bytes = reinterpret_cast<std::uintptr_t>(slots.data() + slots.size()) - from;
  std::vector<unsigned char> resident((bytes + page - 1) / page);
  REQUIRE(mincore(reinterpret_cast<void*>(from), bytes, resident.data()) == 0);
  CHECK(std::ranges::count_if(resident, [](unsigned char each) { return each % 2 == 1; }) <= 200);
}

TEST_CASE("slots lie on cache lines of their own", "[process]") {
  Scoreboard board(2);
  CHECK(reinterpret_cast<std::uintptr_t>(board.slots().data()) % 64 == 0);
  CHECK(sizeof(WorkerSlot) % 64 == 0);
}

}  // namespace
}  // namespace freshet::testing
