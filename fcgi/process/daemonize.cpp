#include "fcgi/process/daemonize.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "fcgi/process/notify.h"

namespace freshet {
namespace {

tl::unexpected<Error> errno_error(const char* action) {
  return fail(ErrorCode::kInternal, "daemonize", {}, std::string(action) + ": " + std::strerror(errno));
}

[[noreturn]] void wait_for_start(int fd) {
  char byte = 0;
  ssize_t bytes_read = 0;
  do bytes_read = read(fd, &byte, 1);
  while (bytes_read < 0 && errno == EINTR);
  _exit(bytes_read == 1 ? 0 : 1);
}

}  // namespace

Result<std::function<void()>> daemonize() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno_error("pipe");
  const pid_t pid = fork();
  if (pid < 0) return errno_error("fork");
  if (pid > 0) {
    close(ends[1]);
    wait_for_start(ends[0]);
  }
  close(ends[0]);
  setsid();
  notify::main_pid(getpid());
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (null < 0) return errno_error("/dev/null");
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
