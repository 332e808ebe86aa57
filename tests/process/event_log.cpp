#include "tests/process/event_log.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

namespace freshet::testing {

EventLog::EventLog(const std::string& path)
    : fd_(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}

void EventLog::record(const std::string& event) const {
  const std::string line = event + " " + std::to_string(getpid()) + "\n";
  static_cast<void>(!write(fd_, line.data(), line.size()));
}

// A POSIX lock, as SQLite uses: the kernel releases it before it closes the process's pipes. A
// flock() lock would be released later.
bool EventLog::is_only_process() const {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  return fcntl(fd_, F_SETLK, &lock) == 0;
}

void EventLog::record_inherited_fds(int own_listen_fd) const {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    int listens = 0;
    socklen_t size = sizeof listens;
    if (fd != own_listen_fd && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 &&
        listens != 0)
      record("listens");
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.find("signalfd") != std::string::npos) record("signalfd");
  }
}

}  // namespace freshet::testing
