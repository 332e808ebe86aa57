// The status process under a real master.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <vector>

#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

const std::string kOneWorker = "pm.max_children = 1\nprocess_control_timeout = 20\n";

struct StatusReply {
  pid_t pid = 0;  // 0: no reply
  std::string text;
};

StatusReply request_status(const TestMaster& master) {
  StatusReply reply;
  std::istringstream(Client(master.status_socket()).request()) >> reply.pid >> reply.text;
  return reply;
}

std::size_t count_events(const TestMaster& master, const std::string& event) {
  std::size_t times = 0;
  std::istringstream in(master.read_file("status-events"));
  std::string name;
  for (pid_t pid = 0; in >> name >> pid;) times += name == event ? 1U : 0U;
  return times;
}

TEST_CASE(
    "the status process answers on its own socket, with its own name and without the master's descriptors",
    "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const StatusReply answer = request_status(master);
  CHECK(answer.text == "/status");
  CHECK(answer.pid == master.board().status().pid);
  CHECK(master.board().status().enabled);
  CHECK(process_name(answer.pid) == "freshetd-status");
  CHECK(count_events(master, "listens") == 0);
  CHECK(count_events(master, "signalfd") == 0);
}

TEST_CASE("the recorder does not inherit the status socket", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  REQUIRE(eventually([&] { return master.read_file("recorder-events").find("ready") != std::string::npos; }));
  CHECK(master.read_file("recorder-events").find("listens") == std::string::npos);
}

TEST_CASE("the status process answers while every worker is stuck", "[process]") {
  TestMaster master(kOneWorker + "request_terminate_timeout = 0\n");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const Client stuck(master.socket());
  const pid_t worker = parse_reply(stuck.request()).pid;
  REQUIRE(worker > 0);
  stuck.send_only('h');
  for (int i = 0; i < 20; ++i) CHECK(request_status(master).pid > 0);
  CHECK(master.has_ready_workers(1));  // still the only worker, and stuck
  kill(worker, SIGKILL);               // nothing else would end it
}

TEST_CASE("a killed status process is restarted, and its clients wait in the socket's queue", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t worker = master.request().pid;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const pid_t before = request_status(master).pid;
    REQUIRE(before > 0);
    kill(before, SIGKILL);
    REQUIRE(eventually([&] { return !is_alive(before); }));
    const pid_t after = request_status(master).pid;  // connects at once and waits in the queue
    CHECK(after > 0);
    CHECK(after != before);
    CHECK(master.board().status().respawns == i + 1);
  }
  CHECK(master.request().pid == worker);
}

TEST_CASE("a failing status process affects neither READY nor the workers", "[process]") {
  TestMaster master(kOneWorker + "pm.status_path = \"/die\"");
  CHECK_FALSE(master.wait_for_notification("READY=1").empty());
  REQUIRE(eventually([&] { return count_events(master, "start") >= 3; }));
  CHECK(master.request().text == "pong");
  CHECK(master.board().pool().respawns == 0);
  master.signal(SIGTERM);
  CHECK(master.exit_status() == 0);
}

TEST_CASE("reloads replace the status process without refusing or dropping a connection", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  LoadGenerator load([&] { return request_status(master).pid > 0; });
  for (int i = 0; i < 10; ++i) {
    const std::string path = "/status" + std::to_string(i);
    master.write_config(kOneWorker + "pm.status_path = \"" + path + "\"");
    master.signal(SIGUSR2);
    CHECK(eventually([&] { return request_status(master).text == path || load.failed() > 0; }));
    CHECK(load.keeps_being_served(5));
  }
  load.stop();
  CHECK(load.failed() == 0);
  CHECK(master.board().status().respawns == 0);
}

TEST_CASE("a reload cannot change pm.status_listen", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  master.write_config(kOneWorker + "pm.status_listen = \"\"");
  master.signal(SIGHUP);
  CHECK(master.wait_for_notification("READY=1").find("pm.status_listen cannot change without a restart") !=
        std::string::npos);
  CHECK(request_status(master).pid > 0);
}

TEST_CASE("without pm.status_listen there is no status process", "[process]") {
  TestMaster master(kOneWorker + "pm.status_listen = \"\"");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  CHECK_FALSE(master.board().status().enabled);
  CHECK_FALSE(std::filesystem::exists(master.status_socket()));
  master.signal(SIGUSR2);
  CHECK_FALSE(master.wait_for_notification("READY=1").empty());
  CHECK(count_events(master, "start") == 0);
}

TEST_CASE("the status process answers while the workers drain, and ends after them", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  auto connection = std::make_unique<Client>(master.socket());
  REQUIRE_FALSE(connection->request().empty());
  master.signal(SIGQUIT);
  REQUIRE_FALSE(master.wait_for_notification("STOPPING=1").empty());
  const pid_t pid = request_status(master).pid;
  CHECK(pid > 0);
  connection.reset();
  CHECK(master.exit_status() == 0);
  CHECK_FALSE(is_alive(pid));
  CHECK(count_events(master, "end") == 1);  // ended on request, not killed
  CHECK_FALSE(std::filesystem::exists(master.status_socket()));
}

TEST_CASE("the status process ends when its master is killed", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t pid = request_status(master).pid;
  REQUIRE(pid > 0);
  master.signal(SIGKILL);
  CHECK(eventually([&] { return !is_alive(pid); }));
}

TEST_CASE("USR1 reaches the status process", "[process]") {
  TestMaster master(kOneWorker);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  REQUIRE(request_status(master).pid > 0);
  master.signal(SIGUSR1);
  CHECK(eventually([&] { return count_events(master, "reopen") == 1; }));
}

}  // namespace
}  // namespace freshet::testing
