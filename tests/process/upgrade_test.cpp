// The master of one binary and that of the next.
#include "fcgi/process/upgrade.h"

#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <memory>

#include "tests/process/upgrade_fixture.h"

namespace freshet::testing {
namespace {

const std::string kTwo = "pm.max_children = 2\nprocess_control_timeout = 20\n";

// Once for each master; when it says so it runs the file that it was started from.
std::size_t masters_started(const TestService& service) {
  const std::string log = service.content("log"), event = "event=master_started";
  std::size_t times = 0;
  for (std::size_t at = 0; (at = log.find(event, at)) != std::string::npos; ++at) ++times;
  return times;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t descriptors(pid_t pid) {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST_CASE("another binary takes over: pid, pid file, workers, recorder and status", "[process]") {
  TestService service(kTwo);
  const pid_t old = service.main(), worker = service.ask().pid, status = service.ask_status().pid;
  service.install();
  service.signal(SIGUSR2);
  CHECK(contains(service.notified("RELOADING=1"), "MONOTONIC_USEC="));
  CHECK_FALSE(service.notified("MAINPID=").empty());
  const std::string message = service.notified("READY=1");
  CAPTURE(message, service.content("log"));
  CHECK(contains(message, "generation 2: 2 of 2 workers ready"));
  CHECK(service.main() != old);
  CHECK(eventually([&] { return service.pid_file() == service.main(); }));
  CHECK(wait_for_end(old) == 0);
  CHECK_FALSE(alive(worker));
  CHECK_FALSE(alive(status));
  CHECK(service.ask().generation == 2);
  CHECK(service.ask_status().pid > 0);
  CHECK(eventually([&] { return service.noted("diary", "ready") == 2; }));
  CHECK(service.strays().empty());
  CHECK(contains(service.content("log"), "event=state word=salt"));
}

TEST_CASE("the table of limits is the same through one binary after another", "[process]") {
  TestService service(kTwo);
  CHECK(contains(service.content("log"), "event=limits taken=1"));
  service.install();
  service.upgrade();
  CHECK(contains(service.content("log"), "event=limits taken=2"));
  service.install();
  service.upgrade();
  CHECK(contains(service.content("log"), "event=limits taken=3"));
}

TEST_CASE("USR2 with the same file is a reload, and so is HUP with another", "[process]") {
  TestService service(kTwo);
  const pid_t before = service.main();
  service.signal(SIGUSR2);
  CHECK(contains(service.notified("READY=1"), "generation 2"));
  service.install();
  service.signal(SIGHUP);
  CHECK(contains(service.notified("READY=1"), "generation 3"));
  CHECK(service.main() == before);
  CHECK(service.upgrade() != before);
}

TEST_CASE("a binary that cannot serve leaves the old generation serving and is named", "[process]") {
  struct Case {
    const char* name;
    void (*install)(TestService&);
    const char* config;
    const char* why;
  };
  const auto plain = [](TestService& service) { service.install(); };
  const Case given = GENERATE_COPY(
      Case{"not executable", [](TestService& s) { s.install("good", 0644); }, "", "Permission denied"},
      Case{"no program", [](TestService& s) { s.install_text("rubbish"); }, "", "cannot execute"},
      Case{"a failing script", [](TestService& s) { s.install_text("#!/bin/sh\nexit 3\n"); }, "",
           "refused (exit 3)"},
      Case{"refuses", [](TestService& s) { s.install("refuse"); }, "", "does not like; the configuration"},
      Case{"crashes", [](TestService& s) { s.install("crash"); }, "",
           "before its workers were ready (signal 6)"},
      Case{"is deaf", [](TestService& s) { s.install("deaf"); }, "", "not ready in time"},
      Case{"bad file", plain, "nonsense = 1", "unknown directive"},
      Case{"workers die", plain, "ping.response = \"die\"", "before its workers were ready (exit 70)"},
      Case{"never ready", plain, "ping.response = \"never\"", "not ready in time"},
      Case{"other socket", plain, "listen = \"/tmp/other\"", "before its workers were ready (exit 78)"});
  CAPTURE(given.name);
  TestService service(kTwo, 4s);
  const pid_t main = service.main(), worker = service.ask().pid, status = service.ask_status().pid;
  given.install(service);
  service.write_config(kTwo + given.config);
  service.signal(SIGUSR2);
  CHECK_FALSE(service.notified("RELOADING=1").empty());
  const std::string message = service.notified("READY=1");
  CAPTURE(message, service.content("log"));
  CHECK(contains(message, "generation 1: 2 of 2 workers ready; last reload failed: "));
  CHECK(contains(message, given.why));
  CHECK(service.main() == main);
  CHECK(service.pid_file() == main);
  CHECK(service.ask().generation == 1);
  CHECK(alive(worker));
  CHECK(service.ask_status().pid == status);
  CHECK(service.noted("diary", "start") == 1);
  CHECK(service.exists("s"));
  // And what is whole is taken afterwards.
  service.write_config(kTwo);
  service.install();
  service.upgrade();
  CHECK(eventually([&] { return service.ask().generation == 2; }));
  CHECK(service.strays().empty());
}

TEST_CASE("upgrades to and fro under load lose no request, and nothing piles up", "[process]") {
  TestService service(kTwo + "recorder.database = \"slow\"");
  Load load([&] { return !service.ask().text.empty(); });
  Load watch([&] { return service.ask_status().pid != 0; });
  std::size_t open = 0;
  for (int i = 0; i < 10; ++i) {
    const pid_t old = service.main();
    service.install();
    service.upgrade();
    CHECK(wait_for_end(old) == 0);
    CHECK(load.goes_on(20));
    CHECK(eventually([&] { return service.noted("diary", "ready") == static_cast<std::size_t>(i) + 2; }));
    if (i == 1) open = descriptors(service.main());
  }
  load.stop();
  watch.stop();
  CHECK(load.lost() == 0);
  CHECK(watch.lost() == 0);
  CHECK(watch.served() > 0);
  CHECK(descriptors(service.main()) == open);
  CHECK(service.noted("diary", "second") == 0);  // never two recorders
  CHECK(service.noted("diary", "listens") == 0);
  CHECK(service.noted("status-diary", "listens") == 0);
  CHECK(service.strays().empty());
}

TEST_CASE("the new recorder waits for the old one, also when its master was killed", "[process]") {
  TestService service(kTwo + "recorder.database = \"slow\"");
  const Client kept(service.socket());  // keeps the old master
  REQUIRE_FALSE(kept.ask().empty());
  const pid_t old = service.main();
  service.install();
  service.upgrade();
  kill(old, SIGKILL);
  CHECK(eventually([&] { return service.noted("diary", "ready") == 2; }));
  CHECK(service.noted("diary", "second") == 0);
  CHECK(alive(service.main()));
  CHECK(eventually([&] { return service.ask().generation == 2; }));
}

TEST_CASE("an old worker serves its connection on after an upgrade, until process_control_timeout",
          "[process]") {
  TestService service("pm.max_children = 1\nprocess_control_timeout = 2");
  const Client kept(service.socket());
  const pid_t worker = parse_reply(kept.ask()).pid, old = service.main();
  service.install();
  service.upgrade();
  CHECK(parse_reply(kept.ask()).pid == worker);
  CHECK(wait_for_end(old) == 0);
  CHECK_FALSE(alive(worker));
}

TEST_CASE("a stop before the new binary is ready ends both", "[process]") {
  for (const int signal : {SIGTERM, SIGQUIT}) {
    TestService service(kTwo);
    service.install();
    service.write_config(kTwo + "ping.response = \"never\"");
    service.signal(SIGUSR2);
    REQUIRE(eventually([&] { return masters_started(service) == 2; }));  // it has forked workers
    service.signal(signal);
    CHECK_FALSE(service.notified("STOPPING=1").empty());
    CHECK(wait_for_end(service.main()) == 0);
    CHECK_FALSE(service.exists("s"));
    CHECK_FALSE(service.exists("pid"));
    // Nobody is left: no child of the service has come to this process.
    CHECK(eventually([] { return waitpid(-1, nullptr, WNOHANG) < 0; }));
    CHECK(service.strays().empty());
  }
}

TEST_CASE("TERM after the new binary took over ends what is left of the old one first", "[process]") {
  TestService service("pm.max_children = 1\nprocess_control_timeout = 3600");
  const Client kept(service.socket());
  const pid_t worker = parse_reply(kept.ask()).pid, old = service.main();
  service.install();
  service.upgrade();
  CHECK(alive(old));
  service.signal(SIGTERM);
  CHECK(wait_for_end(old) == 0);
  CHECK(wait_for_end(service.main()) == 0);
  CHECK_FALSE(alive(worker));
  CHECK_FALSE(service.exists("s"));
  CHECK_FALSE(service.exists("t"));
  CHECK_FALSE(service.exists("pid"));
}

TEST_CASE("QUIT after the new binary took over waits for what the old one serves", "[process]") {
  TestService service("pm.max_children = 1\nprocess_control_timeout = 3600");
  auto kept = std::make_unique<Client>(service.socket());
  const pid_t worker = parse_reply(kept->ask()).pid, old = service.main();
  service.install();
  service.upgrade();
  service.signal(SIGQUIT);
  REQUIRE_FALSE(service.notified("STOPPING=1").empty());
  CHECK(parse_reply(kept->ask()).pid == worker);
  CHECK(alive(service.main()));
  kept.reset();
  CHECK(wait_for_end(old) == 0);
  CHECK(wait_for_end(service.main()) == 0);
}

TEST_CASE("another USR2 during an upgrade is carried out by the new binary when the old one has gone",
          "[process]") {
  TestService service(kTwo);
  auto kept = std::make_unique<Client>(service.socket());
  REQUIRE_FALSE(kept->ask().empty());
  const pid_t first = service.main();
  service.install();
  service.signal(SIGUSR2);
  REQUIRE(eventually([&] { return masters_started(service) == 2; }));
  service.install();
  service.signal(SIGUSR2);
  CHECK_FALSE(service.notified("MAINPID=").empty());
  CHECK(contains(service.notified("READY=1"), "generation 2"));
  const pid_t second = service.main();
  CHECK(alive(first));
  kept.reset();
  CHECK_FALSE(service.notified("MAINPID=").empty());
  CHECK(contains(service.notified("READY=1"), "generation 3"));
  CHECK(wait_for_end(first) == 0);
  CHECK(wait_for_end(second) == 0);
  CHECK(service.ask().generation == 3);
}

TEST_CASE("a reload asked of the old pid after the new binary took over is the new one's", "[process]") {
  TestService service("pm.max_children = 1\nprocess_control_timeout = 3600");
  const Client kept(service.socket());
  REQUIRE_FALSE(kept.ask().empty());
  const pid_t old = service.main();
  service.install();
  service.upgrade();
  kill(old, SIGHUP);
  CHECK(contains(service.notified("READY=1"), "generation 3"));
  CHECK(alive(old));
}

TEST_CASE("when the old master is killed in the middle of an upgrade the new one ends too", "[process]") {
  TestService service(kTwo);
  service.install();
  service.write_config(kTwo + "ping.response = \"never\"");
  service.signal(SIGUSR2);
  service.signal(SIGKILL);
  CHECK(eventually([] {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    return waitpid(-1, nullptr, WNOHANG) < 0;
  }));
  CHECK(service.exists("s"));  // as after any death of a master: the next one removes it
}

TEST_CASE(
    "when the new master is killed after it took over, what is left of the old one ends and its parent hears "
    "of it",
    "[process]") {
  TestService service("pm.max_children = 1\nprocess_control_timeout = 3600");
  const Client kept(service.socket());
  REQUIRE_FALSE(kept.ask().empty());
  const pid_t old = service.main();
  service.install();
  const pid_t next = service.upgrade();
  kill(next, SIGKILL);
  CHECK(wait_for_end(old) == 0);
  const int status = wait_for_end(next);
  CHECK(status == SIGKILL);
}

}  // namespace
}  // namespace freshet::testing
