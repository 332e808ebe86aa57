#include "core/async/host_lookup.h"

#include <netdb.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>
#include <utility>

namespace freshet {
namespace {

std::vector<std::string> addresses_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0) return {};
  std::vector<std::string> out;
  for (const int family : {AF_INET, AF_INET6})
    for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
      std::array<char, NI_MAXHOST> text{};
      if (each->ai_family == family && getnameinfo(each->ai_addr, each->ai_addrlen, text.data(), text.size(),
                                                   nullptr, 0, NI_NUMERICHOST) == 0)
        out.emplace_back(text.data());
    }
  freeaddrinfo(list);
  return out;
}

// Starts a thread that blocks all signals. Returns false if there cannot be another thread.
template <class Body>
bool start_detached(Body body) {
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  bool started = true;
  try {
    std::thread(std::move(body)).detach();
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  return started;
}

}  // namespace

struct HostLookup::State {
  const std::string host;
  const int event_fd;  // readable once `addresses` is set
  std::vector<std::string> addresses;

  explicit State(std::string name) : host(std::move(name)), event_fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (event_fd < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { close(event_fd); }
  void finish() const {
    const std::uint64_t one = 1;
    (void)!write(event_fd, &one, sizeof one);
  }
};

HostLookup::HostLookup(EventLoop& loop, std::string host, Done done)
    : loop_(loop), done_(std::move(done)), state_(std::make_shared<State>(std::move(host))) {
  loop_.add(state_->event_fd, EPOLLIN, *this);
  const bool started = start_detached([state = state_] {
    state->addresses = addresses_of(state->host);
    state->finish();
  });
  if (!started) state_->finish();
}

void HostLookup::cancel() {
  if (!state_) return;
  loop_.remove(state_->event_fd, *this);
  state_.reset();
}

void HostLookup::on_ready(std::uint32_t /*events*/) {
  std::uint64_t counter = 0;
  // The read synchronizes with the thread's write.
  if (read(state_->event_fd, &counter, sizeof counter) != sizeof counter) return;
  std::vector<std::string> addresses = std::move(state_->addresses);
  cancel();
  done_(std::move(addresses));
}

}  // namespace freshet
