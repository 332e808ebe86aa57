// A real master that adjusts the number of workers to the load.
#include "fcgi/process/pool_scaler.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

const std::string kDynamic =
    "pm.mode = \"dynamic\"\npm.max_children = 6\npm.start_servers = 2\npm.min_spare_servers = 1\n"
    "pm.max_spare_servers = 2\nprocess_control_timeout = 20\n";
const std::string kOndemand =
    "pm.mode = \"ondemand\"\npm.max_children = 3\npm.process_idle_timeout = 1\nprocess_control_timeout = "
    "20\n";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::size_t> ready_slots(TestMaster& master) {
  std::vector<std::size_t> slots;
  for (std::size_t i = 0; i < master.board().slots().size(); ++i)
    if (master.board().slots()[i].state == WorkerState::kReady) slots.push_back(i);
  return slots;
}

// A request that stays in flight in a worker that had none. Keeps its connection until destroyed.
class BusyRequest {
 public:
  explicit BusyRequest(const TestMaster& master)
      : client_(master.socket()), pid_(parse_reply(client_.request('b')).pid) {
    REQUIRE(pid_ != 0);
  }
  void finish() const { REQUIRE_FALSE(client_.request('e').empty()); }
  bool is_still_served() const { return parse_reply(client_.request()).pid == pid_; }
  pid_t pid() const { return pid_; }

 private:
  Client client_;
  pid_t pid_;
};
using Requests = std::vector<std::unique_ptr<BusyRequest>>;

// Makes `count` workers busy with one request each; waits for missing workers to start.
Requests occupy(const TestMaster& master, std::size_t count) {
  Requests requests;
  while (requests.size() < count) requests.push_back(std::make_unique<BusyRequest>(master));
  return requests;
}

void end(Requests& requests) {
  for (const auto& request : requests) request->finish();
  requests.clear();
}

TEST_CASE("a dynamic pool starts with pm.start_servers and keeps that many while enough are idle",
          "[process]") {
  TestMaster master(kDynamic);
  CHECK(contains(master.wait_for_notification("READY=1"), "generation 1: 2 of 2 workers ready"));
  CHECK(master.has_ready_workers(2));
}

TEST_CASE("a dynamic pool grows to pm.max_children while no worker is idle, and shrinks again", "[process]") {
  TestMaster master(kDynamic);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  auto busy = occupy(master, 6);
  CHECK(eventually([&] { return master.has_ready_workers(6); }));
  CHECK(eventually([&] { return master.board().pool().max_children_reached == 1; }));
  CHECK(eventually([&] { return master.board().pool().max_active == 6; }));
  CHECK(eventually([&] { return contains(master.log(), "max_children_reached"); }));
  CHECK(master.board().pool().respawns == 0);
  end(busy);
  CHECK(eventually([&] { return master.has_ready_workers(2); }));
  CHECK(eventually([&] { return contains(master.log(), "worker_scaled_down"); }));
  CHECK(master.board().pool().max_active == 6);
  CHECK_FALSE(contains(master.log(), "signal"));  // none was killed
}

TEST_CASE("a surplus worker serves its connections until they close", "[process]") {
  TestMaster master(kDynamic);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  auto busy = occupy(master, 6);
  for (const auto& request : busy) request->finish();
  REQUIRE(eventually([&] { return ready_slots(master).size() == 2; }));
  for (const auto& request : busy) CHECK(request->is_still_served());
  busy.clear();
  CHECK(eventually([&] { return master.has_ready_workers(2); }));
}

TEST_CASE("a dynamic pool replaces a worker that dies", "[process]") {
  TestMaster master(kDynamic);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t victim = master.request().pid;
  kill(victim, SIGKILL);
  CHECK(eventually([&] { return !is_alive(victim) && master.has_ready_workers(2); }));
}

TEST_CASE("an ondemand pool is ready with one worker, and has none after the idle timeout", "[process]") {
  TestMaster master(kOndemand);
  CHECK(contains(master.wait_for_notification("READY=1"), "generation 1: 1 of 1 workers ready"));
  CHECK(contains(master.wait_for_notification("0 of 0 workers ready"), "STATUS=generation 1"));
  CHECK(eventually([&] { return master.has_ready_workers(0); }));
}

TEST_CASE("an ondemand pool without workers forks one for a waiting connection, and ends it again",
          "[process]") {
  TestMaster master(kOndemand);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  for (int round = 0; round < 2; ++round) {
    REQUIRE(eventually([&] { return master.has_ready_workers(0); }));
    CHECK(master.request().pid > 0);
    // One may not have been reaped yet.
    CHECK(eventually([&] { return master.board().totals().workers <= 1; }));
  }
  CHECK(master.board().pool().max_children_reached == 0);
}

TEST_CASE("an ondemand worker that serves occasional requests stays", "[process]") {
  TestMaster master(
      "pm.mode = \"ondemand\"\npm.max_children = 3\npm.process_idle_timeout = 3\nprocess_control_timeout = "
      "20\n");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t first = master.request().pid;
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < 8s) REQUIRE(master.request().pid == first);
}

TEST_CASE("an ondemand worker with a request in flight never ends", "[process]") {
  TestMaster master(kOndemand);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const BusyRequest busy(master);
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < 3s) {
    REQUIRE(is_alive(busy.pid()));
    poll(nullptr, 0, 20);
  }
  CHECK_FALSE(contains(master.log(), "worker_scaled_down"));
}

TEST_CASE("an ondemand pool forks for a connection if no worker is idle, up to pm.max_children",
          "[process]") {
  TestMaster master(kOndemand);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  auto busy = occupy(master, 3);
  CHECK(eventually([&] { return master.has_ready_workers(3); }));
  CHECK(master.board().pool().max_children_reached == 0);
  const Client waiting(master.socket());
  CHECK(eventually([&] { return master.board().pool().max_children_reached == 1; }));
  CHECK(ready_slots(master).size() == 3);
  end(busy);
  CHECK_FALSE(waiting.request().empty());
  CHECK(master.board().pool().max_children_reached == 1);
}

TEST_CASE("a reload starts as many workers as the previous generation had", "[process]") {
  TestMaster master(kDynamic);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  auto busy = occupy(master, 5);
  REQUIRE(eventually([&] { return ready_slots(master).size() == 6; }));
  master.signal(SIGHUP);
  REQUIRE_FALSE(master.wait_for_notification("RELOADING=1").empty());
  CHECK(contains(master.wait_for_notification("READY=1"), "generation 2: 6 of 6 workers ready"));
  end(busy);
  CHECK(eventually([&] { return master.has_ready_workers(2); }));
  CHECK(master.request().generation == 2);
}

TEST_CASE("a reload between process manager modes changes the number of workers", "[process]") {
  TestMaster master("pm.max_children = 3");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const auto reload = [&](const std::string& config) {
    master.write_config(config);
    master.signal(SIGHUP);
    REQUIRE_FALSE(master.wait_for_notification("RELOADING=1").empty());
    REQUIRE_FALSE(contains(master.wait_for_notification("READY=1"), "failed"));
  };
  reload(kOndemand);
  CHECK(eventually([&] { return master.has_ready_workers(0); }));
  reload(kDynamic);
  CHECK(eventually([&] { return master.has_ready_workers(2); }));
  reload("pm.max_children = 3");
  CHECK(eventually([&] { return master.has_ready_workers(3); }));
}

TEST_CASE("an ondemand pool without workers keeps its settings if those of a reload cannot serve",
          "[process]") {
  TestMaster master(kOndemand);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  REQUIRE(eventually([&] { return master.has_ready_workers(0); }));
  master.write_config(kOndemand + "ping.response = \"die\"");
  master.signal(SIGHUP);
  CHECK(contains(master.wait_for_notification("READY=1"), "last reload failed"));
  CHECK(master.request().text == "pong");
}

TEST_CASE("reloads under load fail no request in any mode", "[process]") {
  const std::string config = GENERATE(kDynamic, kOndemand);
  TestMaster master(config);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  LoadGenerator load([&] { return !master.request().text.empty(); });
  for (int i = 0; i < 6; ++i) {
    master.signal(SIGHUP);
    CHECK_FALSE(master.wait_for_notification("RELOADING=1").empty());
    CHECK_FALSE(master.wait_for_notification("READY=1").empty());
    CHECK(load.keeps_being_served(20));
  }
  load.stop();
  CHECK(load.failed() == 0);
  CHECK(master.board().pool().reloads == 6);
}

TEST_CASE("crashes within the interval start a new generation, and SIGKILL is not a crash", "[process]") {
  TestMaster master("pm.max_children = 2\nemergency_restart_threshold = 3\nrlimit_core = 0");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const auto whole_again = [&] { return !master.wait_for_notification("2 of 2 workers ready").empty(); };
  for (int i = 0; i < 4; ++i) {
    kill(master.request().pid, SIGKILL);
    REQUIRE(whole_again());
  }
  for (int i = 0; i < 2; ++i) {
    Client(master.socket()).send_only('t');
    REQUIRE(whole_again());
  }
  CHECK(master.board().pool().emergency_restarts == 0);
  Client(master.socket()).send_only('t');
  CHECK_FALSE(master.wait_for_notification("RELOADING=1").empty());
  CHECK(contains(master.wait_for_notification("READY=1"), "generation 2: 2 of 2"));
  CHECK(master.board().pool().emergency_restarts == 1);
  CHECK(contains(master.log(), "emergency_restart"));
  CHECK(master.board().pool().generation == 2);
  // Output of the crashed workers that bypassed the log.
  CHECK(contains(master.log(), "written to stdout"));
  CHECK(contains(master.log(), "Assertion `\"failed on purpose\" == nullptr' failed"));
}

}  // namespace
}  // namespace freshet::testing
