// The master and its status companion.
#include <signal.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>
#include <vector>

#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

const std::string kOne = "pm.max_children = 1\nprocess_control_timeout = 20\n";

struct Answer {
  pid_t pid = 0;  // 0: none came
  std::string text;
};

Answer ask_status(const TestMaster& master) {
  Answer answer;
  std::istringstream(Client(master.status_socket()).ask()) >> answer.pid >> answer.text;
  return answer;
}

std::size_t noted(const TestMaster& master, const std::string& what) {
  std::size_t times = 0;
  std::istringstream in(master.content("status-diary"));
  std::string word;
  for (pid_t pid = 0; in >> word >> pid;) times += word == what ? 1U : 0U;
  return times;
}

TEST_CASE(
    "the status companion answers on its own socket, with its name and without the master's descriptors",
    "[process]") {
  TestMaster master(kOne);
  REQUIRE_FALSE(master.notified("READY=1").empty());
  const Answer answer = ask_status(master);
  CHECK(answer.text == "/status");
  CHECK(answer.pid == master.board().status().pid);
  CHECK(master.board().status().wanted);
  CHECK(name_of(answer.pid) == "freshetd-status");
  CHECK(noted(master, "listens") == 0);
  CHECK(noted(master, "signalfd") == 0);
}

TEST_CASE("the recorder does not have the socket of the status companion", "[process]") {
  TestMaster master(kOne);
  REQUIRE_FALSE(master.notified("READY=1").empty());
  REQUIRE(eventually([&] { return master.content("diary").find("ready") != std::string::npos; }));
  CHECK(master.content("diary").find("listens") == std::string::npos);
}

TEST_CASE("the status companion answers while every worker is stuck", "[process]") {
  TestMaster master(kOne + "request_terminate_timeout = 0\n");
  REQUIRE_FALSE(master.notified("READY=1").empty());
  const Client stuck(master.socket());
  const pid_t worker = parse_reply(stuck.ask()).pid;
  REQUIRE(worker > 0);
  stuck.send_only('h');
  for (int i = 0; i < 20; ++i) CHECK(ask_status(master).pid > 0);
  CHECK(master.ready(1));  // it still is the only one, and stuck
  kill(worker, SIGKILL);   // nothing else would end it
}

TEST_CASE("a killed status companion is started again and its callers wait for it", "[process]") {
  TestMaster master(kOne);
  REQUIRE_FALSE(master.notified("READY=1").empty());
  const pid_t worker = master.ask().pid;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const pid_t before = ask_status(master).pid;
    REQUIRE(before > 0);
    kill(before, SIGKILL);
    REQUIRE(eventually([&] { return !alive(before); }));
    const pid_t after = ask_status(master).pid;  // connects at once, and waits in the queue
    CHECK(after > 0);
    CHECK(after != before);
    CHECK(master.board().status().respawns == i + 1);
  }
  CHECK(master.ask().pid == worker);
}

TEST_CASE("a status companion that cannot live keeps neither READY nor the workers from their work",
          "[process]") {
  TestMaster master(kOne + "pm.status_path = \"/die\"");
  CHECK_FALSE(master.notified("READY=1").empty());
  REQUIRE(eventually([&] { return noted(master, "start") >= 3; }));
  CHECK(master.ask().text == "pong");
  CHECK(master.board().pool().respawns == 0);
  master.signal(SIGTERM);
  CHECK(master.exit_status() == 0);
}

TEST_CASE("reloads replace the status companion without a refused or lost connection", "[process]") {
  TestMaster master(kOne);
  REQUIRE_FALSE(master.notified("READY=1").empty());
  Load load([&] { return ask_status(master).pid > 0; });
  for (int i = 0; i < 10; ++i) {
    const std::string path = "/status" + std::to_string(i);
    master.write_config(kOne + "pm.status_path = \"" + path + "\"");
    master.signal(SIGUSR2);
    CHECK(eventually([&] { return ask_status(master).text == path || load.lost() > 0; }));
    CHECK(load.goes_on(5));
  }
  load.stop();
  CHECK(load.lost() == 0);
  CHECK(master.board().status().respawns == 0);
}

TEST_CASE("another pm.status_listen at a reload is refused", "[process]") {
  TestMaster master(kOne);
  REQUIRE_FALSE(master.notified("READY=1").empty());
  master.write_config(kOne + "pm.status_listen = \"\"");
  master.signal(SIGHUP);
  CHECK(master.notified("READY=1").find("pm.status_listen cannot change without a restart") !=
        std::string::npos);
  CHECK(ask_status(master).pid > 0);
}

TEST_CASE("without pm.status_listen there is no status companion", "[process]") {
  TestMaster master(kOne + "pm.status_listen = \"\"");
  REQUIRE_FALSE(master.notified("READY=1").empty());
  CHECK_FALSE(master.board().status().wanted);
  CHECK_FALSE(std::filesystem::exists(master.status_socket()));
  master.signal(SIGUSR2);
  CHECK_FALSE(master.notified("READY=1").empty());
  CHECK(noted(master, "start") == 0);
}

TEST_CASE("while the workers drain the status companion answers, and it ends after them", "[process]") {
  TestMaster master(kOne);
  REQUIRE_FALSE(master.notified("READY=1").empty());
  auto kept = std::make_unique<Client>(master.socket());
  REQUIRE_FALSE(kept->ask().empty());
  master.signal(SIGQUIT);
  REQUIRE_FALSE(master.notified("STOPPING=1").empty());
  const pid_t pid = ask_status(master).pid;
  CHECK(pid > 0);
  kept.reset();
  CHECK(master.exit_status() == 0);
  CHECK_FALSE(alive(pid));
  CHECK(noted(master, "end") == 1);  // told, not killed
  CHECK_FALSE(std::filesystem::exists(master.status_socket()));
}

TEST_CASE("without its master the status companion ends", "[process]") {
  TestMaster master(kOne);
  REQUIRE_FALSE(master.notified("READY=1").empty());
  const pid_t pid = ask_status(master).pid;
  REQUIRE(pid > 0);
  master.signal(SIGKILL);
  CHECK(eventually([&] { return !alive(pid); }));
}

TEST_CASE("USR1 reaches the status companion", "[process]") {
  TestMaster master(kOne);
  REQUIRE_FALSE(master.notified("READY=1").empty());
  REQUIRE(ask_status(master).pid > 0);
  master.signal(SIGUSR1);
  CHECK(eventually([&] { return noted(master, "reopen") == 1; }));
}

}  // namespace
}  // namespace freshet::testing
