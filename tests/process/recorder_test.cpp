// The master and its recorder.
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
  std::istringstream in(master.read_file("diary"));
  for (LoggedEvent event; in >> event.name >> event.pid;) events.push_back(event);
  return events;
}

std::size_t count_events(const TestMaster& master, const std::string& event) {
  const auto events = logged_events(master);
  return static_cast<std::size_t>(std::ranges::count(events, event, &LoggedEvent::name));
}

// The pid of the recorder that lives and has noted that it is ready; 0 when there is none.
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

TEST_CASE("the master starts one recorder, with its name and without the master's descriptors", "[process]") {
  TestMaster master(kOneWorker);
  const pid_t pid = wait_for_recorder(master);
  CHECK(process_name(pid) == "freshetd-record");
  CHECK(master.board().recorder().enabled);
  CHECK(master.board().recorder().started_at > 0);
  CHECK(count_events(master, "listens") == 0);
  CHECK(count_events(master, "signalfd") == 0);
  CHECK(count_events(master, "start") == 1);
}

TEST_CASE("a recorder that cannot live keeps neither READY nor the workers from their work", "[process]") {
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

TEST_CASE("a killed recorder is started again and no worker notices", "[process]") {
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

TEST_CASE("at a reload the recorder is replaced, and never do two live", "[process]") {
  TestMaster master(kOneWorker + "recorder.database = \"slow\"");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  for (std::size_t i = 0; i < 3; ++i) {
    const pid_t before = wait_for_recorder(master);
    master.signal(SIGHUP);
    REQUIRE(eventually([&] { return !is_alive(before) && ready_recorder(master) != 0; }));
  }
  CHECK(count_events(master, "second") == 0);
  CHECK(count_events(master, "end") == 3);  // of itself: told, not killed
  CHECK(count_events(master, "start") == 4);
  CHECK(master.board().recorder().respawns == 0);
}

TEST_CASE("a reload that fails leaves the recorder alone", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t pid = wait_for_recorder(master);
  master.write_config(kOneWorker + "ping.response = \"die\"");
  master.signal(SIGHUP);
  REQUIRE(eventually([&] { return master.board().pool().failed_reloads == 1; }));
  CHECK(ready_recorder(master) == pid);
  CHECK(count_events(master, "start") == 1);
}

TEST_CASE("after a reload that failed a killed recorder is started again with the secret that is served by",
          "[process]") {
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

TEST_CASE("recorder.enabled says whether there is one, also at a reload", "[process]") {
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

TEST_CASE("a stop tells the recorder too and waits for it", "[process]") {
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

TEST_CASE("a recorder that ignores its TERM is killed after process_control_timeout", "[process]") {
  TestMaster master("pm.max_children = 1\nprocess_control_timeout = 1\nrecorder.database = \"stubborn\"");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t pid = wait_for_recorder(master);
  master.signal(SIGTERM);
  CHECK(master.exit_status() == 0);
  CHECK_FALSE(is_alive(pid));
  CHECK(count_events(master, "end") == 0);
  CHECK(master.log().find("helper_killed") != std::string::npos);
}

TEST_CASE("without its master the recorder ends", "[process]") {
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
