#include "fcgi/process/daemonize.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "fcgi/process/notify.h"

namespace freshet {
namespace {

tl::unexpected<Error> cannot(const char* what) {
  return fail(ErrorCode::kInternal, "daemonize", {}, std::string(what) + ": " + std::strerror(errno));
}

[[noreturn]] void wait_for_start(int fd) {
  char byte = 0;
  ssize_t got = 0;
  do got = read(fd, &byte, 1);
  while (got < 0 && errno == EINTR);
  _exit(got == 1 ? 0 : 1);
}

}  // namespace

Result<std::function<void()>> daemonize() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return cannot("pipe");
  const pid_t pid = fork();
  if (pid < 0) return cannot("fork");
  if (pid > 0) {
    close(ends[1]);
    wait_for_start(ends[0]);
  }
  close(ends[0]);
  setsid();
  notify::main_pid(getpid());
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return cannot("/dev/null");
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  return [started = ends[1], null] {
    if (isatty(STDERR_FILENO)) dup2(null, STDERR_FILENO);
    close(null);
    const char byte = 'S';
    while (write(started, &byte, 1) < 0 && errno == EINTR) {
    }
    close(started);
  };
}

}  // namespace freshet
