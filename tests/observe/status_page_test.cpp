// Numbers of the part of /status that matches PHP-FPM. tests/e2e/test_status.py compares its format
// with a real PHP-FPM.
#include <catch2/catch.hpp>

#include "fcgi/handlers/status.h"

using namespace freshet;
using namespace freshet::handlers;

namespace {

constexpr std::int64_t kStarted = 1'772'798'400;

// Fills a pool so that all of PHP-FPM's numbers differ.
void fill_with_distinct_values(Scoreboard& board) {
  const auto slots = board.slots();
  for (std::size_t i = 0; i < 5; ++i) slots[i].state = WorkerState::kReady;
  slots[1].in_flight = 1;
  slots[2].state = WorkerState::kStarting;
  slots[3].requests = 77;
  slots[0].accepted = 1001;
  slots[0].slow_requests = 1002;
  PoolCounters& pool = board.pool();
  pool.started_at = kStarted;
  pool.listen_queue = 1003;
  pool.max_listen_queue = 1004;
  pool.max_active = 1005;
  pool.max_children_reached = 1006;
}

std::string render_page(Scoreboard& board, StatusFormat form) {
  Settings settings;
  settings.pool.listen_backlog = 1007;
  return status_page(board, settings, UnixSeconds(seconds(kStarted + 1008)), form, false).body;
}

}  // namespace

TEST_CASE("each of PHP-FPM's keys has its own number", "[status]") {
  Scoreboard board(8);
  fill_with_distinct_values(board);
  const std::string page = render_page(board, StatusFormat::kJson);
  const std::string expected =
      R"("start time":1772798400,"start since":1008,"accepted conn":1001,"listen queue":1003,)"
      R"("max listen queue":1004,"listen queue len":1007,"idle processes":3,"active processes":2,)"
      R"("total processes":5,"max active processes":1005,"max children reached":1006,"slow requests":1002,)";
  CAPTURE(page);
  CHECK(page.find(expected) != std::string::npos);
  CHECK(page.find(R"("requests":77,)") != std::string::npos);
}

TEST_CASE("the keys for Redis and the recorder have their own numbers", "[status]") {
  Scoreboard board(8);
  fill_with_distinct_values(board);
  WorkerSlot& slot = board.slots()[0];
  slot.redis_commands = 2001;
  slot.redis_round_trips = 2002;
  slot.redis_errors = 2003;
  slot.redis_reconnects = 2004;
  RecorderReport& report = board.recorder_report();
  report.entries = 3001;
  report.malformed = 3002;
  report.items = 3003;
  report.last_commit = 3004;
  report.lag_entries = 3005;
  report.lag_age_ms = 3006;
  report.reindexed_items = 3007;
  report.items_to_reindex = 3008;
  board.redis_sample().key_stats.store({.sampled_at = 4001,
                                        .hot_rank = 4002,
                                        .hot_published = 4003,
                                        .hot_hidden = 4004,
                                        .stream_entries = 4005,
                                        .seen_bytes = 4006,
                                        .seen_impressions_today = 4007,
                                        .seen_fill_today = 0.25,
                                        .seen_false_positive_rate = 0.125,
                                        .seen_filter = {"fingerprints"},
                                        .server = {"Valkey 8.1.1"}});
  const std::string page = render_page(board, StatusFormat::kJson);
  CAPTURE(page);
  for (
      const char* const part :
      {R"("redis commands":2001,"redis round trips":2002,"redis errors":2003,"redis reconnects":2004,)",
       R"("recorder entries":3001,"recorder malformed":3002,"recorder items":3003,"recorder last commit":3004,)"
       R"("recorder lag entries":3005,"recorder lag age ms":3006,"recorder reindexed items":3007,"recorder items to reindex":3008)",
       R"("sampled at":4001,"redis server":"Valkey 8.1.1","hot rank":4002,"hot published":4003,"hot hidden":4004,"stream entries":4005,)"
       R"("seen filter":"fingerprints","seen bytes":4006,"seen false positive rate":0.125,)"
       R"("seen impressions today":4007,"seen fill today":0.25)"})
    CHECK(page.find(part) != std::string::npos);
}

TEST_CASE("each of PHP-FPM's metric families has its own number", "[status]") {
  Scoreboard board(8);
  fill_with_distinct_values(board);
  const std::string page = render_page(board, StatusFormat::kOpenMetrics);
  for (const char* line :
       {"up 1", "start_since 1008", "accepted_connections 1001", "listen_queue 1003", "max_listen_queue 1004",
        "listen_queue_length 1007", "idle_processes 3", "active_processes 2", "total_processes 5",
        "max_active_processes 1005", "max_children_reached 1006", "slow_requests 1002"}) {
    CAPTURE(line, page);
    CHECK(page.find("\nphpfpm_" + std::string(line) + "\n") != std::string::npos);
  }
}

TEST_CASE("a page shows the state at the time of the request", "[status]") {
  Scoreboard board(8);
  fill_with_distinct_values(board);
  const std::string before = render_page(board, StatusFormat::kJson);
  board.slots()[1].in_flight = 0;
  ++board.slots()[0].accepted;
  const std::string after = render_page(board, StatusFormat::kJson);
  CHECK(before.find(R"("accepted conn":1001,)") != std::string::npos);
  CHECK(after.find(R"("accepted conn":1002,)") != std::string::npos);
  CHECK(after.find(R"("idle processes":4,"active processes":1,)") != std::string::npos);
}
