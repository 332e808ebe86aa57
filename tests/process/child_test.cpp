#include "fcgi/process/child.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <stdexcept>

#include "fcgi/process/signals.h"
#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

// Runs `worker` as the master would, after `before` in the new process; returns the status as of waitpid.
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
  const int status = wait_for_end(pid);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) CHECK(board.slots()[0].pid == pid);
  return status;
}

int exit_of(
    const Settings& settings, const WorkerMain& worker, const std::function<void()>& before = [] {}) {
  const int status = run(settings, worker, before);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_CASE("a worker's result is its exit status, and an exception is one too", "[process]") {
  CHECK(exit_of({}, [](WorkerContext&) { return 5; }) == 5);
  CHECK(exit_of({}, [](WorkerContext&) -> int { throw std::runtime_error("x"); }) == kExitSoftware);
  CHECK(exit_of({}, [](WorkerContext&) -> int { throw 1; }) == kExitSoftware);
}

TEST_CASE("a worker does not run what its master registered for its own exit", "[process]") {
  CHECK(exit_of(
            {}, [](WorkerContext&) { return 0; }, [] { std::atexit([] { _exit(9); }); }) == 0);
}

TEST_CASE("signals the master blocked reach the worker, and before it has handlers they end it quietly",
          "[process]") {
  const auto block = [] { static_cast<void>(SignalQueue::open()); };
  for (const int signal : {SIGTERM, SIGQUIT, SIGINT}) {
    const int status = run(
        {}, [signal](WorkerContext&) { return raise(signal), 1; }, block);
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  for (const int signal : {SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE})
    CHECK(exit_of(
              {}, [signal](WorkerContext&) { return raise(signal), 4; }, block) == 4);
}

TEST_CASE("a worker gets TERM when its master dies, also after it dropped privileges", "[process]") {
  Settings settings;
  if (geteuid() == 0) settings.pool.user = "nobody";
  const WorkerMain worker = [](WorkerContext&) {
    int signal = 0;
    prctl(PR_GET_PDEATHSIG, &signal);
    return signal;
  };
  CHECK(exit_of(settings, worker) == SIGTERM);
}

TEST_CASE("privileges are dropped for good, with groups", "[process]") {
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
  CHECK(exit_of(settings, worker) == 0);
  settings.pool.group = "adm";
  CHECK(exit_of(settings, [](WorkerContext&) { return getgid() == 4 ? 0 : 1; }) == 0);
  settings.pool.user = "no-such-user";
  CHECK(exit_of(settings, worker) == kExitSoftware);
}

TEST_CASE("rlimit_files is set, and descriptors of the master are closed", "[process]") {
  Settings settings;
  settings.pool.rlimit_files = 77;
  CHECK(exit_of(settings, [](WorkerContext&) {
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
  CHECK(wait_for_end(pid) == 0);
  close(fd);
}

TEST_CASE("a worker whose master is gone before it was set up does not start", "[process]") {
  Scoreboard board(1);
  const pid_t pid = fork();
  if (pid == 0) {
    const Settings settings;
    WorkerContext context{settings, board, 0, -1, -1};
    run_child(context, [](WorkerContext&) { return 0; }, {1, {}});
  }
  CHECK(WEXITSTATUS(wait_for_end(pid)) == kExitSoftware);
}

TEST_CASE("root is refused unless allowed or left", "[process]") {
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
