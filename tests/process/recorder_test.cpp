// The recorder under a real master.
#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

const std::string kOneWorker = "pm.max_children = 1\nprocess_control_timeout = 20\n";

struct LoggedEvent {
  std::string name;
  pid_t pid = 0;
};

std::vector<LoggedEvent> logged_events(const TestMaster& master) {
  std::vector<LoggedEvent> events;
  std::istringstream in(master.read_file("recorder-events"));
  for (LoggedEvent event; in >> event.name >> event.pid;) events.push_back(event);
  return events;
}

std::size_t count_events(const TestMaster& master, const std::string& event) {
  const auto events = logged_events(master);
  return static_cast<std::size_t>(std::ranges::count(events, event, &LoggedEvent::name));
}

// Pid of the running recorder once it has logged "ready", else 0.
pid_t ready_recorder(TestMaster& master) {
  const pid_t pid = master.board().recorder().pid;
  for (const LoggedEvent& event : logged_events(master))
    if (event.name == "ready" && event.pid == pid && is_alive(pid)) return pid;
  return 0;
}

pid_t wait_for_recorder(TestMaster& master) {
  pid_t pid = 0;
  REQUIRE(eventually([&] { return (pid = ready_recorder(master)) != 0; }));
  return pid;
}

TEST_CASE("the master starts one recorder, with its own name and without the master's descriptors",
          "[process]") {
  TestMaster master(kOneWorker);
  const pid_t pid = wait_for_recorder(master);
  CHECK(process_name(pid) == "freshetd-record");
  CHECK(master.board().recorder().enabled);
  CHECK(master.board().recorder().started_at > 0);
  CHECK(count_events(master, "listens") == 0);
  CHECK(count_events(master, "signalfd") == 0);
  CHECK(count_events(master, "start") == 1);
}

TEST_CASE("a failing recorder affects neither READY nor the workers", "[process]") {
  TestMaster master(kOneWorker + "recorder.database = \"die\"");
  CHECK_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t worker = master.request().pid;
  REQUIRE(eventually([&] { return count_events(master, "start") >= 4; }));
  CHECK(master.request().pid == worker);
  CHECK(master.board().pool().respawns == 0);
  CHECK(master.board().recorder().respawns >= 3);
  master.signal(SIGTERM);
  CHECK(master.exit_status() == 0);
}

TEST_CASE("a killed recorder is restarted and the workers are not affected", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t worker = master.request().pid;
  for (int i = 0; i < 4; ++i) {
    const pid_t pid = wait_for_recorder(master);
    kill(pid, SIGKILL);
    REQUIRE(eventually([&] { return !is_alive(pid) && ready_recorder(master) != 0; }));
  }
  CHECK(master.request().pid == worker);
  CHECK(master.board().recorder().respawns == 4);
  CHECK(master.board().pool().respawns == 0);
}

TEST_CASE("a reload replaces the recorder, and two never run at once", "[process]") {
  TestMaster master(kOneWorker + "recorder.database = \"slow\"");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  for (std::size_t i = 0; i < 3; ++i) {
    const pid_t previous_pid = wait_for_recorder(master);
    master.signal(SIGHUP);
    REQUIRE(eventually([&] { return !is_alive(previous_pid) && ready_recorder(master) != 0; }));
  }
  CHECK(count_events(master, "second") == 0);
  CHECK(count_events(master, "end") == 3);  // ended on request, not killed
  CHECK(count_events(master, "start") == 4);
  CHECK(master.board().recorder().respawns == 0);
}

TEST_CASE("a failed reload leaves the recorder running", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t pid = wait_for_recorder(master);
  master.write_config(kOneWorker + "ping.response = \"die\"");
  master.signal(SIGHUP);
  REQUIRE(eventually([&] { return master.board().pool().failed_reloads == 1; }));
  CHECK(ready_recorder(master) == pid);
  CHECK(count_events(master, "start") == 1);
}

TEST_CASE("after a failed reload a killed recorder is restarted with the secret in use", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t pid = wait_for_recorder(master);
  std::ofstream(master.path("secret")) << "newer";
  master.write_config(kOneWorker + "ping.response = \"die\"");
  master.signal(SIGHUP);
  REQUIRE(eventually([&] { return master.board().pool().failed_reloads == 1; }));
  kill(pid, SIGKILL);
  REQUIRE(eventually([&] { return !is_alive(pid) && ready_recorder(master) != 0; }));
  CHECK(count_events(master, "knows-none") == 2);
  CHECK(count_events(master, "knows-newer") == 0);
  master.write_config(kOneWorker);
  master.signal(SIGHUP);
  CHECK(eventually([&] { return count_events(master, "knows-newer") == 1; }));
}

TEST_CASE("recorder.enabled starts and stops the recorder, also at a reload", "[process]") {
  TestMaster master(kOneWorker + "recorder.enabled = false");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  CHECK(master.board().recorder().pid == 0);
  CHECK_FALSE(master.board().recorder().enabled);
  master.write_config(kOneWorker);
  master.signal(SIGHUP);
  const pid_t pid = wait_for_recorder(master);
  CHECK(count_events(master, "start") == 1);
  master.write_config(kOneWorker + "recorder.enabled = false");
  master.signal(SIGHUP);
  CHECK(eventually([&] { return !is_alive(pid) && master.board().recorder().pid == 0; }));
  CHECK_FALSE(master.board().recorder().enabled);
  CHECK(count_events(master, "end") == 1);
}

TEST_CASE("a stop ends the recorder and waits for it", "[process]") {
  for (const int signal : {SIGTERM, SIGQUIT}) {
    TestMaster master(kOneWorker + "recorder.database = \"slow\"");
    REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
    const pid_t pid = wait_for_recorder(master);
    master.signal(signal);
    CHECK(master.exit_status() == 0);
    CHECK_FALSE(is_alive(pid));
    CHECK(count_events(master, "end") == 1);
    CHECK(count_events(master, "start") == 1);
  }
}

TEST_CASE("a recorder that ignores TERM is killed after process_control_timeout", "[process]") {
  TestMaster master("pm.max_children = 1\nprocess_control_timeout = 1\nrecorder.database = \"stubborn\"");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t pid = wait_for_recorder(master);
  master.signal(SIGTERM);
  CHECK(master.exit_status() == 0);
  CHECK_FALSE(is_alive(pid));
  CHECK(count_events(master, "end") == 0);
  CHECK(master.log().find("helper_killed") != std::string::npos);
}

TEST_CASE("the recorder ends when its master is killed", "[process]") {
  TestMaster master(kOneWorker);
  const pid_t pid = wait_for_recorder(master);
  master.signal(SIGKILL);
  CHECK(eventually([&] { return !is_alive(pid); }));
  CHECK(count_events(master, "end") == 1);
}

TEST_CASE("USR1 reaches the recorder", "[process]") {
  TestMaster master(kOneWorker);
  wait_for_recorder(master);
  master.signal(SIGUSR1);
  CHECK(eventually([&] { return count_events(master, "reopen") == 1; }));
}

}  // namespace
}  // namespace freshet::testing
