#include "fcgi/process/daemonize.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "fcgi/process/scoreboard.h"
#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

TEST_CASE("the calling process exits with 0 once the background process has started, else with 1",
          "[process]") {
  const bool starts = GENERATE(true, false);
  Scoreboard board(1);
  WorkerSlot& slot = board.slots()[0];  // in shared memory
  const pid_t caller = fork();
  if (caller == 0) {
    const auto started = daemonize();
    if (!started) _exit(9);
    slot.pid = getsid(0) == getpid() ? getpid() : -1;
    if (starts) (*started)();
    _exit(0);
  }
  const int status = wait_for_exit(caller);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == (starts ? 0 : 1));
  CHECK(slot.pid > 0);
  CHECK(slot.pid != caller);
}

}  // namespace
}  // namespace freshet::testing
