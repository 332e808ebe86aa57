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

TEST_CASE("totals are sums over slots and include dead workers", "[process]") {
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

TEST_CASE("a route's statistics outlive the worker that served its requests", "[process]") {
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
  CHECK(totals.background_queued == 4);  // the dead worker's queue is in its spool, or lost
  CHECK(totals.detached == 1);
}

TEST_CASE("a worker's activity is described by its phase and route", "[process]") {
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

TEST_CASE("a quantile is the upper bound of its bucket", "[process]") {
  HistogramTotals histogram;
  CHECK(histogram.quantile_us(0.99) == 0);
  histogram.counts[0] = 98;
  histogram.counts[4] = 2;
  CHECK(histogram.quantile_us(0.5) == kDurationBounds[0]);
  CHECK(histogram.quantile_us(0.99) == kDurationBounds[4]);
  histogram.counts[kDurationBuckets - 1] = 10000;
  CHECK(histogram.quantile_us(0.99) == kDurationBounds.back());
}

TEST_CASE("a request snapshot is consistent while its worker writes", "[process]") {
  Scoreboard board(1);
  WorkerSlot& slot = board.slots()[0];
  auto& stop = board.pool().respawns;
  const pid_t writer = fork();
  if (writer == 0) {
    for (std::int64_t i = 0; stop == 0; ++i) {
      RequestSnapshot snapshot{.received_us = i, .duration_us = i, .content_length = i};
      snapshot.path.fill(static_cast<char>('a' + i % 26));
      slot.request.store(snapshot);
    }
    _exit(0);
  }
  std::set<std::int64_t> observed;
  bool consistent = true;
  while (observed.size() < 1000) {
    const RequestSnapshot snapshot = slot.request.load();
    if (snapshot.path[0] == 0) continue;
    observed.insert(snapshot.received_us);
    consistent = consistent && snapshot.received_us == snapshot.duration_us &&
                 snapshot.received_us == snapshot.content_length &&
                 snapshot.path.front() == snapshot.path.back() &&
                 snapshot.path[0] == static_cast<char>('a' + snapshot.received_us % 26);
  }
  stop = 1;
  CHECK(consistent);
  CHECK(wait_for_exit(writer) == 0);
}

TEST_CASE("states and gauges count living workers only", "[process]") {
  Scoreboard board(3);
  board.slots()[0].state = WorkerState::kReady;
  board.slots()[0].in_flight = 2;
  board.slots()[1].state = WorkerState::kDraining;
  board.slots()[1].in_flight = 1;
  board.slots()[2].in_flight = 9;  // in an empty slot
  CHECK(board.totals().workers == 2);
  CHECK(board.totals().ready == 1);
  CHECK(board.totals().in_flight == 3);
}

TEST_CASE("counters are shared between processes", "[process]") {
  Scoreboard board(1);
  const pid_t pid = fork();
  if (pid == 0) {
    board.slots()[0].requests = 7;
    _exit(0);
  }
  REQUIRE(wait_for_exit(pid) == 0);
  CHECK(board.totals().requests == 7);
}

TEST_CASE("totals never decrease while the master retires slots and workers count", "[process]") {
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
    // Nothing was counted twice or lost.
    _exit(board.totals().requests == 400000 ? 0 : 2);
  }
  for (int i = 0; i < 100000; ++i) {
    for (WorkerSlot& slot : board.slots()) slot.requests.fetch_add(1);
    board.retire(board.slots()[static_cast<std::size_t>(i) % 4]);
  }
  stop = 1;
  CHECK(wait_for_exit(reader) == 0);
}

TEST_CASE("every refusal has its own name", "[process]") {
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < static_cast<std::size_t>(Refusal::kCount); ++i)
    names.insert(refusal_name(static_cast<Refusal>(i)));
  CHECK(names.size() == static_cast<std::size_t>(Refusal::kCount));
  CHECK(names.count("") == 0);
  CHECK(refusal_name(Refusal::kBot) == "bot");
  CHECK(refusal_name(Refusal::kWriteTimeout) == "write_timeout");
}

TEST_CASE("an unused slot takes at most two pages of memory, even after all slots were read", "[process]") {
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
  CHECK(std::ranges::count_if(resident, [](unsigned char byte) { return byte % 2 == 1; }) <= 200);
}

TEST_CASE("slots do not share cache lines", "[process]") {
  Scoreboard board(2);
  CHECK(reinterpret_cast<std::uintptr_t>(board.slots().data()) % 64 == 0);
  CHECK(sizeof(WorkerSlot) % 64 == 0);
}

}  // namespace
}  // namespace freshet::testing
