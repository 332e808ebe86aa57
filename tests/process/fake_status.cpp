#include "tests/process/fake_status.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "tests/process/event_log.h"

namespace freshet::testing {

int fake_status(const Settings& settings, int listen_fd, const std::string& event_log_path) {
  const std::string& behaviour = settings.pool.status_path;
  const EventLog events(event_log_path);
  events.record("start");
  if (behaviour == "/die") return 3;
  events.record_inherited_fds(listen_fd);
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGTERM, SIGUSR1}) sigaddset(&mask, signal);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  const int signals = signalfd(-1, &mask, SFD_NONBLOCK);
  while (true) {
    std::array<pollfd, 2> fds{{{signals, POLLIN, 0}, {listen_fd, POLLIN, 0}}};
    poll(fds.data(), fds.size(), -1);
    signalfd_siginfo info{};
    if (read(signals, &info, sizeof info) == sizeof info) {
      events.record(info.ssi_signo == SIGUSR1 ? "reopen" : "end");
      if (info.ssi_signo == SIGTERM) return 0;
    }
    const int fd = accept(listen_fd, nullptr, nullptr);
    if (fd < 0) continue;
    const std::string line = std::to_string(getpid()) + " " + behaviour + "\n";
    static_cast<void>(!send(fd, line.data(), line.size(), MSG_NOSIGNAL));
    close(fd);
  }
}

}  // namespace freshet::testing
