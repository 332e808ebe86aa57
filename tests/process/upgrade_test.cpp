// Upgrades between the masters of two binaries.
#include "fcgi/process/upgrade.h"

#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>

#include "tests/process/upgrade_fixture.h"

namespace freshet::testing {
namespace {

const std::string kTwoWorkers = "pm.max_children = 2\nprocess_control_timeout = 20\n";

// Each master logs the event once, after it has executed its file.
std::size_t masters_started(const TestService& service) {
  const std::string log = service.read_file("log"), event = "event=master_started";
  std::size_t times = 0;
  for (std::size_t at = 0; (at = log.find(event, at)) != std::string::npos; ++at) ++times;
  return times;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t open_fd_count(pid_t pid) {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST_CASE("another binary takes over: pid, pid file, workers, recorder and status", "[process]") {
  TestService service(kTwoWorkers);
  const pid_t old = service.main_pid(), worker = service.request().pid, status = service.request_status().pid;
  service.install();
  service.signal(SIGUSR2);
  CHECK(contains(service.wait_for_notification("RELOADING=1"), "MONOTONIC_USEC="));
  CHECK_FALSE(service.wait_for_notification("MAINPID=").empty());
  const std::string message = service.wait_for_notification("READY=1");
  CAPTURE(message, service.read_file("log"));
  CHECK(contains(message, "generation 2: 2 of 2 workers ready"));
  CHECK(service.main_pid() != old);
  CHECK(eventually([&] { return service.recorded_pid() == service.main_pid(); }));
  CHECK(wait_for_exit(old) == 0);
  CHECK_FALSE(is_alive(worker));
  CHECK_FALSE(is_alive(status));
  CHECK(service.request().generation == 2);
  CHECK(service.request_status().pid > 0);
  CHECK(eventually([&] { return service.count_events("recorder-events", "ready") == 2; }));
  CHECK(service.unexpected_notifications().empty());
  CHECK(contains(service.read_file("log"), "event=state word=salt"));
}

TEST_CASE("the rate limit table survives successive upgrades", "[process]") {
  TestService service(kTwoWorkers);
  CHECK(contains(service.read_file("log"), "event=limits taken=1"));
  service.install();
  service.upgrade();
  CHECK(contains(service.read_file("log"), "event=limits taken=2"));
  service.install();
  service.upgrade();
  CHECK(contains(service.read_file("log"), "event=limits taken=3"));
}

TEST_CASE("USR2 with an unchanged binary is a reload, and so is HUP with a changed one", "[process]") {
  TestService service(kTwoWorkers);
  const pid_t before = service.main_pid();
  service.signal(SIGUSR2);
  CHECK(contains(service.wait_for_notification("READY=1"), "generation 2"));
  service.install();
  service.signal(SIGHUP);
  CHECK(contains(service.wait_for_notification("READY=1"), "generation 3"));
  CHECK(service.main_pid() == before);
  CHECK(service.upgrade() != before);
}

TEST_CASE("a binary that cannot serve is reported and the old generation keeps serving", "[process]") {
  struct Case {
    const char* name;
    void (*install)(TestService&);
    const char* config;
    const char* reason;
  };
  const auto install_good = [](TestService& service) { service.install(); };
  const Case test_case = GENERATE_COPY(
      Case{"not executable", [](TestService& s) { s.install("good", 0644); }, "", "Permission denied"},
      Case{"no program", [](TestService& s) { s.install_text("rubbish"); }, "", "cannot execute"},
      Case{"a failing script", [](TestService& s) { s.install_text("#!/bin/sh\nexit 3\n"); }, "",
           "failed its configuration check (exit 3)"},
      Case{"refuses", [](TestService& s) { s.install("refuse"); }, "", "cannot accept; the configuration"},
      Case{"crashes", [](TestService& s) { s.install("crash"); }, "",
           "before its workers were ready (signal 6)"},
      Case{"is deaf", [](TestService& s) { s.install("deaf"); }, "", "not ready in time"},
      Case{"bad file", install_good, "nonsense = 1", "unknown directive"},
      Case{"workers die", install_good, "ping.response = \"die\"", "before its workers were ready (exit 70)"},
      Case{"never ready", install_good, "ping.response = \"never\"", "not ready in time"},
      Case{"other socket", install_good, "listen = \"/tmp/other\"",
           "before its workers were ready (exit 78)"});
  CAPTURE(test_case.name);
  TestService service(kTwoWorkers, 4s);
  const pid_t main = service.main_pid(), worker = service.request().pid,
              status = service.request_status().pid;
  REQUIRE(eventually([&] { return service.count_events("recorder-events", "start") == 1; }));
  test_case.install(service);
  service.write_config(kTwoWorkers + test_case.config);
  service.signal(SIGUSR2);
  CHECK_FALSE(service.wait_for_notification("RELOADING=1").empty());
  const std::string message = service.wait_for_notification("READY=1");
  CAPTURE(message, service.read_file("log"));
  CHECK(contains(message, "generation 1: 2 of 2 workers ready; last reload failed: "));
  CHECK(contains(message, test_case.reason));
  CHECK(service.main_pid() == main);
  CHECK(service.recorded_pid() == main);
  CHECK(service.request().generation == 1);
  CHECK(is_alive(worker));
  CHECK(service.request_status().pid == status);
  CHECK(service.count_events("recorder-events", "start") == 1);
  CHECK(service.exists("s"));
  // A working binary is accepted afterwards.
  service.write_config(kTwoWorkers);
  service.install();
  service.upgrade();
  CHECK(eventually([&] { return service.request().generation == 2; }));
  CHECK(service.unexpected_notifications().empty());
}

TEST_CASE("repeated upgrades under load lose no request and leak no descriptors", "[process]") {
  TestService service(kTwoWorkers + "recorder.database = \"slow\"");
  LoadGenerator load([&] { return !service.request().text.empty(); });
  LoadGenerator watch([&] { return service.request_status().pid != 0; });
  std::size_t open = SIZE_MAX;  // least descriptors; for a moment a master may have one more
  for (int i = 0; i < 10; ++i) {
    const pid_t old = service.main_pid();
    service.install();
    service.upgrade();
    CHECK(wait_for_exit(old) == 0);
    CHECK(load.keeps_being_served(20));
    CHECK(eventually(
        [&] { return service.count_events("recorder-events", "ready") == static_cast<std::size_t>(i) + 2; }));
    if (i >= 1) open = std::min(open, open_fd_count(service.main_pid()));
  }
  load.stop();
  watch.stop();
  CHECK(load.failed() == 0);
  CHECK(watch.failed() == 0);
  CHECK(watch.served() > 0);
  CHECK(eventually([&] { return open_fd_count(service.main_pid()) <= open; }));
  CHECK(service.count_events("recorder-events", "second") == 0);  // never two recorders
  CHECK(service.count_events("recorder-events", "listens") == 0);
  CHECK(service.count_events("status-events", "listens") == 0);
  CHECK(service.unexpected_notifications().empty());
}

TEST_CASE("the new recorder waits for the old one, even if the old master was killed", "[process]") {
  TestService service(kTwoWorkers + "recorder.database = \"slow\"");
  const Client connection(service.socket());  // keeps the old master running
  REQUIRE_FALSE(connection.request().empty());
  const pid_t old = service.main_pid();
  service.install();
  service.upgrade();
  kill(old, SIGKILL);
  CHECK(eventually([&] { return service.count_events("recorder-events", "ready") == 2; }));
  CHECK(service.count_events("recorder-events", "second") == 0);
  CHECK(is_alive(service.main_pid()));
  CHECK(eventually([&] { return service.request().generation == 2; }));
}

TEST_CASE("after an upgrade an old worker serves its connection until process_control_timeout", "[process]") {
  TestService service("pm.max_children = 1\nprocess_control_timeout = 2");
  const Client connection(service.socket());
  const pid_t worker = parse_reply(connection.request()).pid, old = service.main_pid();
  service.install();
  service.upgrade();
  CHECK(parse_reply(connection.request()).pid == worker);
  CHECK(wait_for_exit(old) == 0);
  CHECK_FALSE(is_alive(worker));
}

TEST_CASE("a stop before the new binary is ready ends both", "[process]") {
  for (const int signal : {SIGTERM, SIGQUIT}) {
    TestService service(kTwoWorkers);
    service.install();
    service.write_config(kTwoWorkers + "ping.response = \"never\"");
    service.signal(SIGUSR2);
    REQUIRE(eventually([&] { return masters_started(service) == 2; }));  // it has forked workers
    service.signal(signal);
    CHECK_FALSE(service.wait_for_notification("STOPPING=1").empty());
    CHECK(wait_for_exit(service.main_pid()) == 0);
    CHECK_FALSE(service.exists("s"));
    CHECK_FALSE(service.exists("pid"));
    // No orphan of the service was reparented to this process.
    CHECK(eventually([] { return waitpid(-1, nullptr, WNOHANG) < 0; }));
    CHECK(service.unexpected_notifications().empty());
  }
}

TEST_CASE("TERM after an upgrade ends the old master first", "[process]") {
  TestService service("pm.max_children = 1\nprocess_control_timeout = 3600");
  const Client connection(service.socket());
  const pid_t worker = parse_reply(connection.request()).pid, old = service.main_pid();
  service.install();
  service.upgrade();
  CHECK(is_alive(old));
  service.signal(SIGTERM);
  CHECK(wait_for_exit(old) == 0);
  CHECK(wait_for_exit(service.main_pid()) == 0);
  CHECK_FALSE(is_alive(worker));
  CHECK_FALSE(service.exists("s"));
  CHECK_FALSE(service.exists("t"));
  CHECK_FALSE(service.exists("pid"));
}

TEST_CASE("QUIT after an upgrade waits for the old master to drain", "[process]") {
  TestService service("pm.max_children = 1\nprocess_control_timeout = 3600");
  auto connection = std::make_unique<Client>(service.socket());
  const pid_t worker = parse_reply(connection->request()).pid, old = service.main_pid();
  service.install();
  service.upgrade();
  service.signal(SIGQUIT);
  REQUIRE_FALSE(service.wait_for_notification("STOPPING=1").empty());
  CHECK(parse_reply(connection->request()).pid == worker);
  CHECK(is_alive(service.main_pid()));
  connection.reset();
  CHECK(wait_for_exit(old) == 0);
  CHECK(wait_for_exit(service.main_pid()) == 0);
}

TEST_CASE("a second USR2 during an upgrade is carried out by the new binary once the old one has ended",
          "[process]") {
  TestService service(kTwoWorkers);
  auto connection = std::make_unique<Client>(service.socket());
  REQUIRE_FALSE(connection->request().empty());
  const pid_t first = service.main_pid();
  service.install();
  service.signal(SIGUSR2);
  REQUIRE(eventually([&] { return masters_started(service) == 2; }));
  service.install();
  service.signal(SIGUSR2);
  CHECK_FALSE(service.wait_for_notification("MAINPID=").empty());
  CHECK(contains(service.wait_for_notification("READY=1"), "generation 2"));
  const pid_t second = service.main_pid();
  CHECK(is_alive(first));
  connection.reset();
  CHECK_FALSE(service.wait_for_notification("MAINPID=").empty());
  CHECK(contains(service.wait_for_notification("READY=1"), "generation 3"));
  CHECK(wait_for_exit(first) == 0);
  CHECK(wait_for_exit(second) == 0);
  CHECK(service.request().generation == 3);
}

TEST_CASE("a reload request to the old master after an upgrade is forwarded to the new one", "[process]") {
  TestService service("pm.max_children = 1\nprocess_control_timeout = 3600");
  const Client connection(service.socket());
  REQUIRE_FALSE(connection.request().empty());
  const pid_t old = service.main_pid();
  service.install();
  service.upgrade();
  kill(old, SIGHUP);
  CHECK(contains(service.wait_for_notification("READY=1"), "generation 3"));
  CHECK(is_alive(old));
}

TEST_CASE("killing the old master during an upgrade ends the new one too", "[process]") {
  TestService service(kTwoWorkers);
  service.install();
  service.write_config(kTwoWorkers + "ping.response = \"never\"");
  service.signal(SIGUSR2);
  service.signal(SIGKILL);
  CHECK(eventually([] {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return waitpid(-1, nullptr, WNOHANG) < 0;
  }));
  CHECK(service.exists("s"));  // as after any death of a master; the next one replaces it
}

TEST_CASE("killing the new master after an upgrade ends the old one, and the parent gets the exit status",
          "[process]") {
  TestService service("pm.max_children = 1\nprocess_control_timeout = 3600");
  const Client connection(service.socket());
  REQUIRE_FALSE(connection.request().empty());
  const pid_t old = service.main_pid();
  service.install();
  const pid_t next = service.upgrade();
  kill(next, SIGKILL);
  CHECK(wait_for_exit(old) == 0);
  const int status = wait_for_exit(next);
  CHECK(status == SIGKILL);
}

}  // namespace
}  // namespace freshet::testing
