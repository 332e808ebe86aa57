#include "fcgi/process/crash_counter.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

namespace freshet {
namespace {

using namespace std::chrono_literals;

int exit_status_of(int signal) {
  const pid_t pid = fork();
  if (pid == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    if (signal != 0) {
      ::signal(signal, SIG_DFL);
      raise(signal);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return status;
}

TEST_CASE("a crash is a death by a signal that the program itself caused", "[process]") {
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGSYS}) {
    CAPTURE(signal);
    CHECK(is_crash(exit_status_of(signal)));
  }
  for (const int signal : {SIGKILL, SIGTERM, SIGINT, SIGPIPE, 0}) {
    CAPTURE(signal);
    CHECK_FALSE(is_crash(exit_status_of(signal)));
  }
}

TEST_CASE("only crashes within the interval count, and reaching the threshold resets the count",
          "[process]") {
  CrashCounter counter;
  SteadyTime now{1h};
  CHECK_FALSE(counter.record_crash(3, 60s, now));
  CHECK_FALSE(counter.record_crash(3, 60s, now + 1s));
  CHECK_FALSE(counter.record_crash(3, 60s, now + 60s));  // the first one has expired
  CHECK(counter.record_crash(3, 60s, now + 60500ms));
  CHECK_FALSE(counter.record_crash(3, 60s, now + 60600ms));
  CHECK_FALSE(counter.record_crash(3, 60s, now + 60700ms));
  CHECK(counter.record_crash(3, 60s, now + 60800ms));
}

TEST_CASE("every crash reaches a threshold of 1, none a threshold of 0", "[process]") {
  CrashCounter counter;
  for (int i = 0; i < 5; ++i) {
    CHECK(counter.record_crash(1, 60s, {}));
    CHECK_FALSE(counter.record_crash(0, 60s, {}));
  }
}

}  // namespace
}  // namespace freshet
