#include "core/async/signals.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace freshet {

namespace {

int open_signalfd(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers) sigaddset(&set, number);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
}

}  // namespace

Signals::Signals(EventLoop& loop, std::initializer_list<int> numbers, std::function<void(int)> on_signal)
    : loop_(loop), on_signal_(std::move(on_signal)), fd_(open_signalfd(numbers)) {
  if (fd_ < 0 || !loop_.add(fd_, EPOLLIN, *this))
    throw std::system_error(errno, std::generic_category(), "signalfd");
}

Signals::~Signals() {
  loop_.remove(fd_, *this);
  close(fd_);
}

void Signals::on_ready(std::uint32_t) {
  signalfd_siginfo info;
  while (read(fd_, &info, sizeof info) == sizeof info) on_signal_(static_cast<int>(info.ssi_signo));
}

}  // namespace freshet
