#include "fcgi/process/child.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "core/base/log.h"
#include "fcgi/process/signals.h"
#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs `worker` as the master would, after calling `before` in the new process. Returns the status
// from waitpid().
int run(
    const Settings& settings, const WorkerMain& worker, const std::function<void()>& before = [] {}) {
  Scoreboard board(1);
  const pid_t master = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    before();
    WorkerContext context{settings, board, 0, -1, -1};
    run_child(context, worker, {master, {}});
  }
  const int status = wait_for_exit(pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) CHECK(board.slots()[0].pid == pid);
  return status;
}

int exit_status_of(
    const Settings& settings, const WorkerMain& worker, const std::function<void()>& before = [] {}) {
  const int status = run(settings, worker, before);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("a worker's return value or exception becomes its exit status", "[process]") {
  CHECK(exit_status_of({}, [](WorkerContext&) { return 5; }) == 5);
  CHECK(exit_status_of({}, [](WorkerContext&) -> int { throw std::runtime_error("x"); }) == kExitSoftware);
  CHECK(exit_status_of({}, [](WorkerContext&) -> int { throw 1; }) == kExitSoftware);
}

TEST_CASE("a worker does not run its master's exit handlers", "[process]") {
  CHECK(exit_status_of(
            {}, [](WorkerContext&) { return 0; }, [] { std::atexit([] { _exit(9); }); }) == 0);
}

TEST_CASE(
    "a worker receives the signals that its master blocked, and without handlers they end it with status 0",
    "[process]") {
  const auto block = [] { static_cast<void>(SignalQueue::open()); };
  for (const int signal : {SIGTERM, SIGQUIT, SIGINT}) {
    const int status = run(
        {}, [signal](WorkerContext&) { return raise(signal), 1; }, block);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE})
    CHECK(exit_status_of(
              {}, [signal](WorkerContext&) { return raise(signal), 4; }, block) == 4);
}

TEST_CASE("a worker gets TERM when its master dies, even after dropping privileges", "[process]") {
  Settings settings;
  if (geteuid() == 0) settings.pool.user = "nobody";
  const WorkerMain worker = [](WorkerContext&) {
    int signal = 0;
    prctl(PR_GET_PDEATHSIG, &signal);
    return signal;
  };
  CHECK(exit_status_of(settings, worker) == SIGTERM);
}

TEST_CASE("privileges and supplementary groups are dropped for good", "[process]") {
  if (geteuid() != 0) return;
  Settings settings;
  settings.pool.user = "nobody";
  const WorkerMain worker = [](WorkerContext&) {
    const passwd* nobody = getpwnam("nobody");
    gid_t groups[8];
    const int count = getgroups(8, groups);
    const bool dropped = getuid() == nobody->pw_uid && geteuid() == nobody->pw_uid &&
                         getgid() == nobody->pw_gid && setuid(0) != 0;
    for (int i = 0; i < count; ++i)
      if (groups[i] == 0) return 2;
    return dropped ? 0 : 1;
  };
  CHECK(exit_status_of(settings, worker) == 0);
  settings.pool.group = "adm";
  CHECK(exit_status_of(settings, [](WorkerContext&) { return getgid() == 4 ? 0 : 1; }) == 0);
  settings.pool.user = "no-such-user";
  CHECK(exit_status_of(settings, worker) == kExitSoftware);
}

TEST_CASE("rlimit_files is applied and the master's descriptors are closed", "[process]") {
  Settings settings;
  settings.pool.rlimit_files = 77;
  CHECK(exit_status_of(settings, [](WorkerContext&) {
          rlimit limit{};
          getrlimit(RLIMIT_NOFILE, &limit);
          return limit.rlim_cur == 77 ? 0 : 1;
        }) == 0);
  Scoreboard board(1);
  const pid_t master = getpid();
  const int fd = dup(0);
  const pid_t pid = fork();
  if (pid == 0) {
    WorkerContext context{settings, board, 0, -1, -1};
    run_child(context, [fd](WorkerContext&) { return fcntl(fd, F_GETFD) < 0 ? 0 : 1; }, {master, {fd}});
  }
  CHECK(wait_for_exit(pid) == 0);
  close(fd);
}

TEST_CASE("rlimit_core, process.priority and chdir apply to a worker, even after dropping privileges",
          "[process]") {
  const TempFolder folder;
  Settings settings;
  settings.pool.rlimit_core = 4096;
  settings.pool.process_priority = 7;
  settings.pool.chdir = "/usr";
  if (geteuid() == 0) settings.pool.user = "nobody";
  const WorkerMain worker = [](WorkerContext&) {
    rlimit limit{};
    getrlimit(RLIMIT_CORE, &limit);
    if (limit.rlim_cur != 4096) return 1;
    if (getpriority(PRIO_PROCESS, 0) != 7) return 2;
    if (std::filesystem::current_path() != "/usr") return 3;
    return prctl(PR_GET_DUMPABLE) == 1 ? 0 : 4;
  };
  CHECK(exit_status_of(settings, worker) == 0);
  settings.pool.chdir = folder / "missing";
  CHECK(exit_status_of(settings, worker) == kExitConfig);
}

TEST_CASE("rlimit_core = 0 forbids core files and -1 keeps the inherited limit", "[process]") {
  const WorkerMain worker = [](WorkerContext&) {
    rlimit limit{};
    getrlimit(RLIMIT_CORE, &limit);
    return static_cast<int>(limit.rlim_cur);
  };
  const auto inherited = [] {
    const rlimit limit{33, 77};
    setrlimit(RLIMIT_CORE, &limit);
  };
  Settings settings;
  CHECK(exit_status_of(settings, worker, inherited) == 33);
  settings.pool.rlimit_core = 0;
  CHECK(exit_status_of(settings, worker, inherited) == 0);
  settings.pool.rlimit_core = 55;
  CHECK(exit_status_of(settings, worker, inherited) == 55);
}

TEST_CASE("env sets variables, and $NAME expands to the master's value or to nothing", "[process]") {
  Settings settings;
  settings.pool.env = {
      {"GIVEN", "a b"}, {"TAKEN", "$MASTERS"}, {"MISSING", "$NO_SUCH"}, {"MASTERS", "$GIVEN"}};
  const auto is = [](const char* name, const char* value) {
    const char* const found = std::getenv(name);
    return found && std::string(found) == value;
  };
  const WorkerMain worker = [&](WorkerContext&) {
    if (!is("GIVEN", "a b")) return 1;
    if (!is("TAKEN", "of the master")) return 2;
    if (!is("MISSING", "")) return 3;
    return is("MASTERS", "") && is("UNTOUCHED", "yes") ? 0 : 4;
  };
  CHECK(exit_status_of(settings, worker, [] {
          setenv("MASTERS", "of the master", 1);
          setenv("UNTOUCHED", "yes", 1);
        }) == 0);
}

TEST_CASE("a worker's log lines use the time zone of its environment", "[process]") {
  const TempFolder folder;
  Settings settings;
  settings.error_log = folder / "log";
  settings.pool.env = {{"TZ", "Asia/Kathmandu"}};
  CHECK(exit_status_of(
            settings, [](WorkerContext&) { return log::notice("here"), 0; }, [] { log::notice("before"); }) ==
        0);
  CHECK(read_file(folder / "log").find("+05:45 level=notice event=here") != std::string::npos);
}

// Writes to stdout and stderr, bypassing the log, and writes one line to the log.
int write_everywhere(const char* text) {
  std::printf("%s on stdout\n", text);
  std::fflush(stdout);
  std::fprintf(stderr, "%s on stderr\n", text);
  log::notice(text);
  return 0;
}

TEST_CASE("a worker's stdout and stderr are appended to error_log, even after it was reopened", "[process]") {
  const TempFolder folder;
  Settings settings;
  settings.error_log = folder / "log";
  CHECK(exit_status_of(settings, [&](WorkerContext&) {
          write_everywhere("before");
          std::filesystem::rename(folder / "log", folder / "moved");
          log::reopen();
          return write_everywhere("after");
        }) == 0);
  const std::string moved = read_file(folder / "moved"), now = read_file(folder / "log");
  for (const char* where : {" on stdout", " on stderr"}) {
    CHECK(moved.find(std::string("before") + where) != std::string::npos);
    CHECK(now.find(std::string("after") + where) != std::string::npos);
    CHECK(now.find(std::string("before") + where) == std::string::npos);
  }
  CHECK(now.find("event=after") != std::string::npos);
}

TEST_CASE("with error_log on stderr, a worker's output goes there or is dropped, but log lines are kept",
          "[process]") {
  const bool caught = GENERATE(true, false);
  const TempFolder folder;
  Settings settings;
  settings.pool.catch_workers_output = caught;
  const auto to_file = [&] {
    const int fd = open((folder / "stderr").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(fd, STDERR_FILENO);
  };
  CHECK(exit_status_of(
            settings, [](WorkerContext&) { return write_everywhere("output"); }, to_file) == 0);
  const std::string text = read_file(folder / "stderr");
  CHECK((text.find("output on stdout") != std::string::npos) == caught);
  CHECK((text.find("output on stderr") != std::string::npos) == caught);
  CHECK(text.find("event=output") != std::string::npos);
}

TEST_CASE("with catch_workers_output off the log contains log lines only, even after it was reopened",
          "[process]") {
  const TempFolder folder;
  Settings settings;
  settings.error_log = folder / "log";
  settings.pool.catch_workers_output = false;
  CHECK(exit_status_of(settings, [](WorkerContext&) {
          log::reopen();
          return write_everywhere("output");
        }) == 0);
  CHECK(read_file(folder / "log").find(" on std") == std::string::npos);
  CHECK(read_file(folder / "log").find("event=output") != std::string::npos);
}

TEST_CASE("a worker does not start if its master died during the set-up", "[process]") {
  Scoreboard board(1);
  const pid_t pid = fork();
  if (pid == 0) {
    const Settings settings;
    WorkerContext context{settings, board, 0, -1, -1};
    run_child(context, [](WorkerContext&) { return 0; }, {1, {}});
  }
  CHECK(WEXITSTATUS(wait_for_exit(pid)) == kExitSoftware);
}

TEST_CASE("workers may run as root only if allowed or if user names another account", "[process]") {
  PoolSettings pool;
  CHECK(check_user(pool, true).has_value());
  CHECK(check_user(pool, false).has_value() == (geteuid() != 0));
  pool.user = "nobody";
  CHECK(check_user(pool, false).has_value());
  pool.user = "root";
  CHECK(check_user(pool, false).has_value() == (geteuid() != 0));
}

}  // namespace
}  // namespace freshet::testing
