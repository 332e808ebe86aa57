#include "fcgi/process/master.h"
#include "fcgi/process/child.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

const std::string kTwoWorkers = "pm.max_children = 2\nprocess_control_timeout = 20\n";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the master reports READY once all workers are ready, with their number in its status",
          "[process]") {
  TestMaster master(kTwoWorkers);
  const std::string message = master.wait_for_notification("READY=1");
  CHECK(contains(message, "STATUS=generation 1: 2 of 2 workers ready"));
  CHECK(master.has_ready_workers(2));
  CHECK(master.request().text == "pong");
  CHECK(master.board().pool().generation == 1);
  pid_t recorded_pid = 0;
  std::ifstream(master.path("pid")) >> recorded_pid;
  CHECK(recorded_pid == master.pid());
}

TEST_CASE("pm.max_children = 0 starts one worker per core, and at least two", "[process]") {
  cpu_set_t all, some;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&some);
  const auto cores = GENERATE(1U, 2U, 3U);
  for (std::size_t cpu = 0, taken = 0; cpu < CPU_SETSIZE && taken < cores; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    CPU_SET(cpu, &some);
    ++taken;
  }
  REQUIRE(sched_setaffinity(0, sizeof some, &some) == 0);
  {
    TestMaster master("");
    const auto wanted = static_cast<std::uint32_t>(std::max(2, CPU_COUNT(&some)));
    CHECK(eventually([&] { return master.has_ready_workers(wanted); }));
    CHECK(master.board().totals().ready == wanted);
  }
  REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
}

TEST_CASE("a ready worker that dies is replaced at once, and totals never decrease", "[process]") {
  TestMaster master(kTwoWorkers);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  std::uint64_t requests = 0;
  for (int i = 0; i < 20; ++i) {
    const Reply before = master.request();
    REQUIRE(before.pid > 0);
    requests = master.board().totals().requests;
    const auto killed_at = std::chrono::steady_clock::now();
    kill(before.pid, SIGKILL);
    REQUIRE(eventually([&] { return !is_alive(before.pid) && master.has_ready_workers(2); }));
    CHECK(std::chrono::steady_clock::now() - killed_at < 2s);
    CHECK(master.board().totals().requests >= requests);
  }
  CHECK(master.board().totals().requests == 20);
  CHECK(eventually([&] { return master.board().pool().respawns == 20; }));
}

TEST_CASE("workers that die before READY are restarted with delays, and the master is not ready",
          "[process]") {
  const auto begin = std::chrono::steady_clock::now();
  TestMaster master(kTwoWorkers + "ping.response = \"die\"");
  // The two workers start after 0, 0.1, 0.3 and 0.7 s.
  REQUIRE(eventually([&] { return master.board().totals().requests >= 8; }));
  CHECK(std::chrono::steady_clock::now() - begin >= 700ms);
  CHECK(is_alive(master.pid()));
  CHECK(master.board().totals().ready == 0);
  master.signal(SIGTERM);
  CHECK(master.exit_status() == 0);
  CHECK(master.wait_for_notification("READY=1").empty());
}

TEST_CASE("ten workers in a row that reject the configuration stop the service", "[process]") {
  TestMaster master(kTwoWorkers + "ping.response = \"reject\"");
  CHECK(master.exit_status() == kExitConfig);
  CHECK(master.board().totals().requests == 10);
  CHECK(master.log().find("10 workers in a row ended with status 78") != std::string::npos);
  CHECK(master.wait_for_notification("READY=1").empty());
}

TEST_CASE("a reload with working settings makes a failing service ready", "[process]") {
  TestMaster master(kTwoWorkers + "ping.response = \"die\"");
  REQUIRE(eventually([&] { return master.board().totals().requests >= 2; }));
  master.write_config(kTwoWorkers + "ping.response = \"repaired\"");
  master.signal(SIGHUP);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  CHECK(master.request().text == "repaired");
}

TEST_CASE("HUP and USR2 replace all workers with ones that have the new settings", "[process]") {
  TestMaster master(kTwoWorkers);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  std::uint32_t generation = 1;
  for (const int signal : {SIGHUP, SIGUSR2}) {
    master.write_config("pm.max_children = 3\nping.response = \"new" + std::to_string(++generation) + "\"");
    master.signal(signal);
    CHECK(contains(master.wait_for_notification("RELOADING=1"), "MONOTONIC_USEC="));
    CHECK(contains(master.wait_for_notification("READY=1"),
                   "generation " + std::to_string(generation) + ": 3 of 3"));
    CHECK(eventually([&] { return master.has_ready_workers(3); }));
    CHECK(master.request().text == "new" + std::to_string(generation));
  }
  CHECK(master.board().pool().reloads == 2);
  CHECK(master.board().pool().reloaded_at >= master.board().pool().started_at);
  CHECK(master.board().pool().generation == 3);
}

TEST_CASE("after a reload an old worker serves its connection until that closes", "[process]") {
  TestMaster master("pm.max_children = 1\nping.response = \"old\"");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  auto connection = std::make_unique<Client>(master.socket());
  const pid_t old = parse_reply(connection->request()).pid;
  master.write_config("pm.max_children = 1\nping.response = \"new\"");
  master.signal(SIGUSR2);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  // The old worker may accept one more connection before it reads its QUIT.
  CHECK(eventually([&] { return master.request().text == "new"; }));
  CHECK(parse_reply(connection->request()).pid == old);
  connection.reset();
  CHECK(eventually([&] { return !is_alive(old) && master.has_ready_workers(1); }));
}

TEST_CASE("reloads under load fail no request", "[process]") {
  TestMaster master(kTwoWorkers);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  LoadGenerator load([&] { return !master.request().text.empty(); });
  for (int i = 0; i < 10; ++i) {
    master.write_config(i % 3 == 2 ? "nonsense = 1" : kTwoWorkers);
    master.signal(i % 2 == 0 ? SIGUSR2 : SIGHUP);
    CHECK_FALSE(master.wait_for_notification("RELOADING=1").empty());
    CHECK_FALSE(master.wait_for_notification("READY=1").empty());
    CHECK(load.keeps_being_served(20));
  }
  load.stop();
  CHECK(load.failed() == 0);
  CHECK(master.board().pool().reloads == 7);
  CHECK(master.board().pool().failed_reloads == 3);
}

TEST_CASE("a reload that fails is reported and the old workers keep serving", "[process]") {
  struct Case {
    const char* config;
    const char* reason;
  };
  const auto [config, reason] =
      GENERATE(Case{"pm.max_childern = 2", "unknown directive"},
               Case{"pm.max_children = 2\nping.response = \"die\"", "died before"},
               Case{"ping.response = \"loader throws\"", "thrown by the loader"},
               Case{"pm.max_children = 2\nping.response = \"throw\"", "died before"},
               Case{"pm.max_children = 2\nping.response = \"never\"", "not ready in time"},
               Case{"pm.max_children = 60", "cannot grow that much"});
  TestMaster master(kTwoWorkers, 0us, 1s);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t worker = master.request().pid;
  master.write_config(config);
  master.signal(SIGHUP);
  CHECK_FALSE(master.wait_for_notification("RELOADING=1").empty());
  const std::string message = master.wait_for_notification("READY=1");
  CAPTURE(config, message, master.log());
  CHECK(contains(message, "generation 1: 2 of 2 workers ready; last reload failed: "));
  CHECK(contains(message, reason));
  CHECK(master.board().pool().failed_reloads == 1);
  CHECK(master.board().pool().reloads == 0);
  CHECK(master.board().pool().reloaded_at == 0);
  CHECK(eventually([&] { return master.has_ready_workers(2); }));
  CHECK(is_alive(worker));
  CHECK(master.request().generation == 1);
}

TEST_CASE("after an aborted reload a replacement worker has the same secret as its siblings", "[process]") {
  const auto [config, reason] =
      GENERATE(std::pair("ping.response = \"die\"", "died before"), std::pair("nonsense = 1", "unknown"));
  TestMaster master(kTwoWorkers);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  std::ofstream(master.path("secret")) << "newer";
  master.write_config(kTwoWorkers + config);
  master.signal(SIGHUP);
  REQUIRE(contains(master.wait_for_notification("READY=1"), reason));
  std::set<pid_t> first, later;
  for (const WorkerSlot& slot : master.board().slots())
    if (slot.pid != 0 && slot.generation == 1) first.insert(slot.pid);
  REQUIRE(first.size() == 2);
  for (const pid_t worker : first) kill(worker, SIGKILL);
  REQUIRE(eventually([&] { return std::ranges::none_of(first, is_alive) && master.has_ready_workers(2); }));
  std::vector<std::unique_ptr<Client>> connections;
  for (int i = 0; i < 2; ++i) {
    connections.push_back(std::make_unique<Client>(master.socket()));
    const Reply reply = parse_reply(connections.back()->request('s'));
    CHECK(reply.text == "none");
    later.insert(reply.pid);
    connections.back()->request('b');  // so that the other worker accepts the next connection
  }
  CHECK(later.size() == 2);
  connections.clear();
  // The next successful reload reads the files again.
  master.write_config(kTwoWorkers);
  master.signal(SIGHUP);
  REQUIRE(contains(master.wait_for_notification("READY=1"), "generation "));
  CHECK(eventually([&] { return parse_reply(Client(master.socket()).request('s')).text == "newer"; }));
}

TEST_CASE("an aborted reload lets the new workers finish the requests they accepted", "[process]") {
  TestMaster master(kTwoWorkers, 0us, 1s);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  master.write_config(kTwoWorkers + "ping.response = \"half\"");
  master.signal(SIGHUP);
  // Connect to the new worker that is ready, the one in an even slot.
  std::vector<std::unique_ptr<Client>> clients;
  pid_t accepted_by = 0;
  REQUIRE(eventually([&] {
    clients.push_back(std::make_unique<Client>(master.socket()));
    const Reply reply = parse_reply(clients.back()->request());
    for (std::size_t i = 0; i < master.board().slots().size(); i += 2)
      if (reply.generation == 2 && master.board().slots()[i].pid == reply.pid) accepted_by = reply.pid;
    return accepted_by != 0;
  }));
  CHECK(contains(master.wait_for_notification("READY=1"), "not ready in time"));
  CHECK(parse_reply(clients.back()->request()).pid == accepted_by);
  clients.clear();
  CHECK(eventually([&] { return master.has_ready_workers(2) && !is_alive(accepted_by); }));
}

TEST_CASE("a reload cannot change the size of the rate limit table", "[process]") {
  TestMaster master(kTwoWorkers);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  master.write_config(kTwoWorkers + "limits.table = \"1M\"");
  master.signal(SIGHUP);
  CHECK(contains(master.wait_for_notification("READY=1"), "limits.table cannot change without a restart"));
}

TEST_CASE("a reload cannot change the listen address", "[process]") {
  TestMaster master(kTwoWorkers);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  std::ofstream(master.path("freshet.toml")) << "listen = \"" << master.path("other") << "\"";
  master.signal(SIGHUP);
  CHECK(contains(master.wait_for_notification("READY=1"), "listen.address cannot change without a restart"));
  CHECK(master.request().generation == 1);
}

TEST_CASE("a successful reload clears the error of a failed one", "[process]") {
  TestMaster master(kTwoWorkers);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  master.write_config("nonsense = 1");
  master.signal(SIGHUP);
  CHECK(contains(master.wait_for_notification("READY=1"), "last reload failed"));
  master.write_config(kTwoWorkers);
  master.signal(SIGHUP);
  CHECK_FALSE(contains(master.wait_for_notification("READY=1"), "failed"));
}

TEST_CASE("QUIT drains the workers, refuses new connections and removes the socket and the pid file",
          "[process]") {
  TestMaster master("pm.max_children = 1\nprocess_control_timeout = 20");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  auto connection = std::make_unique<Client>(master.socket());
  REQUIRE_FALSE(connection->request().empty());
  master.signal(SIGQUIT);
  REQUIRE_FALSE(master.wait_for_notification("STOPPING=1").empty());
  CHECK_FALSE(connection->request().empty());
  CHECK(is_alive(master.pid()));
  connection.reset();
  CHECK(master.exit_status() == 0);
  CHECK_FALSE(std::filesystem::exists(master.socket()));
  CHECK_FALSE(std::filesystem::exists(master.path("pid")));
}

TEST_CASE("TERM and INT end the workers without waiting for idle connections", "[process]") {
  for (const int signal : {SIGTERM, SIGINT}) {
    TestMaster master(kTwoWorkers);
    REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
    const Client connection(master.socket());
    const pid_t worker = parse_reply(connection.request()).pid;
    master.signal(signal);
    CHECK(master.exit_status() == 0);
    CHECK_FALSE(is_alive(worker));
  }
}

TEST_CASE("TERM ends a drain", "[process]") {
  TestMaster master("pm.max_children = 1\nprocess_control_timeout = 3600");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const Client connection(master.socket());
  REQUIRE_FALSE(connection.request().empty());
  master.signal(SIGQUIT);
  REQUIRE_FALSE(master.wait_for_notification("STOPPING=1").empty());
  master.signal(SIGTERM);
  CHECK(master.exit_status() == 0);
}

TEST_CASE("a worker that ignores TERM is killed after process_control_timeout", "[process]") {
  TestMaster master("pm.max_children = 1\nping.response = \"stubborn\"\nprocess_control_timeout = 1");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const auto requested_at = std::chrono::steady_clock::now();
  master.signal(SIGTERM);
  CHECK(master.exit_status() == 0);
  CHECK(std::chrono::steady_clock::now() - requested_at >= 1s);
  CHECK(contains(master.log(), "signal 9"));
}

TEST_CASE("TERM ends a drain that takes longer than process_control_timeout", "[process]") {
  TestMaster master("pm.max_children = 1\nprocess_control_timeout = 1");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const Client connection(master.socket());
  REQUIRE_FALSE(connection.request().empty());
  const auto requested_at = std::chrono::steady_clock::now();
  master.signal(SIGQUIT);
  CHECK(master.exit_status() == 0);
  CHECK(std::chrono::steady_clock::now() - requested_at >= 1s);
  CHECK_FALSE(contains(master.log(), "signal 9"));
}

TEST_CASE("USR1 reaches the workers", "[process]") {
  TestMaster master(kTwoWorkers);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  master.signal(SIGUSR1);
  CHECK(eventually([&] { return master.board().totals().replayed == 2; }));
  CHECK(master.has_ready_workers(2));
}

TEST_CASE("a worker that asks for its replacement serves until that is ready", "[process]") {
  TestMaster master("pm.max_children = 1");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  auto connection = std::make_unique<Client>(master.socket());
  const pid_t old = parse_reply(connection->request('x')).pid;
  REQUIRE(eventually([&] { return master.board().totals().workers == 2; }));
  REQUIRE(eventually([&] { return master.request().pid != old; }));
  CHECK(parse_reply(connection->request()).pid == old);  // it finishes its connections
  connection.reset();
  CHECK(eventually([&] { return !is_alive(old) && master.has_ready_workers(1); }));
  CHECK(master.board().pool().respawns == 0);
}

TEST_CASE("a worker whose loop is stuck is killed and replaced", "[process]") {
  TestMaster master("pm.max_children = 1\nrequest_terminate_timeout = 1");
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t stuck = master.request().pid;
  const Client client(master.socket());
  client.send_only('h');
  CHECK(eventually([&] { return !is_alive(stuck) && master.has_ready_workers(1); }));
  CHECK(master.request().pid != stuck);
  CHECK(contains(master.log(), "worker_stall_detected"));
}

TEST_CASE("the watchdog leaves idle workers alone, and systemd's watchdog is pinged", "[process]") {
  TestMaster master("pm.max_children = 1\nrequest_terminate_timeout = 3", 200ms);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  const pid_t worker = master.request().pid;
  // 45 pings take 4.5 s, longer than request_terminate_timeout.
  for (int i = 0; i < 45; ++i) REQUIRE_FALSE(master.wait_for_notification("WATCHDOG=1").empty());
  CHECK(master.request().pid == worker);
}

TEST_CASE("workers end when the master is killed", "[process]") {
  TestMaster master(kTwoWorkers);
  REQUIRE_FALSE(master.wait_for_notification("READY=1").empty());
  std::vector<pid_t> workers;
  for (const WorkerSlot& slot : master.board().slots())
    if (slot.pid != 0) workers.push_back(slot.pid);
  REQUIRE(workers.size() == 2);
  master.signal(SIGKILL);
  for (const pid_t worker : workers) CHECK(eventually([&] { return !is_alive(worker); }));
}

TEST_CASE("a second master does not start on a socket in use", "[process]") {
  TestMaster first(kTwoWorkers);
  REQUIRE_FALSE(first.wait_for_notification("READY=1").empty());
  TestMaster second("");
  // This one has its own socket; the next one uses the first master's.
  REQUIRE_FALSE(second.wait_for_notification("READY=1").empty());
  const pid_t third = fork();
  if (third == 0) {
    Settings settings;
    settings.pool.listen = first.socket();
    Scoreboard board(8);
    MasterOptions options;
    options.allow_root = true;
    GenerationSpec plan{{settings, {}}, [](WorkerContext&) { return 0; }, {}};
    _exit(run_master(
        std::move(plan), board, [] { return Result<GenerationSpec>(); }, options));
  }
  const int status = wait_for_exit(third);
  CHECK(WEXITSTATUS(status) == 78);
  CHECK(first.request().text == "pong");
}

TEST_CASE("a master started by root refuses to start without a user for its workers", "[process]") {
  if (geteuid() != 0) return;
  const pid_t pid = fork();
  if (pid == 0) {
    Scoreboard board(8);
    GenerationSpec plan{{}, [](WorkerContext&) { return 0; }, {}};
    _exit(run_master(std::move(plan), board, [] { return Result<GenerationSpec>(); }));
  }
  CHECK(WEXITSTATUS(wait_for_exit(pid)) == 78);
}

}  // namespace
}  // namespace freshet::testing
