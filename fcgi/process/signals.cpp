#include "fcgi/process/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace freshet {
namespace {

constexpr std::array kSignals{
    SignalRow{SIGTERM, "TERM", MasterCommand::kStopNow},
    SignalRow{SIGINT, "INT", MasterCommand::kStopNow},
    SignalRow{SIGQUIT, "QUIT", MasterCommand::kStopGracefully},
    SignalRow{SIGHUP, "HUP", MasterCommand::kReload},
    SignalRow{SIGUSR2, "USR2", MasterCommand::kUpgrade},
    SignalRow{SIGUSR1, "USR1", MasterCommand::kReopenLogs},
    SignalRow{SIGCHLD, "CHLD", MasterCommand::kReap},
};

struct ChildDisposition {
  int number;
  void (*handler)(int);
};

void exit_quietly(int) { _exit(0); }

const std::array kChildDispositions{
    ChildDisposition{SIGTERM, exit_quietly}, ChildDisposition{SIGINT, exit_quietly},
    ChildDisposition{SIGQUIT, exit_quietly}, ChildDisposition{SIGHUP, SIG_IGN},
    ChildDisposition{SIGUSR1, SIG_IGN},      ChildDisposition{SIGUSR2, SIG_IGN},
    ChildDisposition{SIGCHLD, SIG_DFL},      ChildDisposition{SIGPIPE, SIG_IGN},
};

sigset_t table_mask() {
  sigset_t mask;
  sigemptyset(&mask);
  for (const SignalRow& row : kSignals) sigaddset(&mask, row.number);
  return mask;
}

}  // namespace

std::span<const SignalRow> signal_table() { return kSignals; }

Result<SignalQueue> SignalQueue::open() {
  const sigset_t mask = table_mask();
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  const int fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
  if (fd < 0) return fail(ErrorCode::kInternal, "signalfd", {}, std::strerror(errno));
  return SignalQueue(fd);
}

SignalQueue::SignalQueue(SignalQueue&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

SignalQueue::~SignalQueue() {
  if (fd_ >= 0) close(fd_);
}

std::optional<SignalRow> SignalQueue::next() {
  signalfd_siginfo info{};
  if (read(fd_, &info, sizeof info) != sizeof info) return std::nullopt;
  for (const SignalRow& row : kSignals)
    if (static_cast<std::uint32_t>(row.number) == info.ssi_signo) return row;
  return std::nullopt;
}

void reset_signals_in_child() {
  for (const auto& row : kChildDispositions) {
    struct sigaction action {};
    action.sa_handler = row.handler;
    sigaction(row.number, &action, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace freshet
