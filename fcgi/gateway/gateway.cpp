#include "fcgi/gateway/gateway.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/log.h"
#include "fcgi/gateway/connection.h"

namespace freshet::gateway {

namespace {

constexpr std::size_t kScratchBytes = 64 * 1024;
constexpr int kAcceptsPerTurn = 16;  // so that workers share a burst
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

Gateway::Gateway(EventLoop& loop, GatewayOptions options, Application application,
                 std::function<void(Response&)> overloaded)
    : loop_(loop),
      options_(std::move(options)),
      application_(std::move(application)),
      overloaded_(std::move(overloaded)),
      reading_(loop.io(), options_.read_timeout, [](Connection& c) { c.expire_read(); }),
      writing_(loop.io(), options_.write_timeout, [](Connection& c) { c.expire_write(); }),
      accept_timer_(loop.io()),
      drain_timer_(loop.io()),
      scratch_(kScratchBytes) {}

Gateway::~Gateway() = default;

void Gateway::listen(int listen_fd) {
  listen_fd_ = listen_fd;
  // Exclusive: a new connection wakes one worker, not all.
  if (!loop_.add(listen_fd, EPOLLIN | EPOLLEXCLUSIVE, *this)) log::error("listen_not_watched", {});
}

void Gateway::on_ready(std::uint32_t /*events*/) {
  for (int i = 0; i < kAcceptsPerTurn && listen_fd_ >= 0; ++i) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      if (admit(fd)) {
        adopt(fd);
      } else {
        ::close(fd);
      }
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) pause_accepting();
    return;
  }
}

// The listening socket stays readable while descriptors are used up: without a pause the loop would spin on
// it.
void Gateway::pause_accepting() {
  log::warning("accept_paused", {{"connections", std::to_string(connections_.size())}});
  const int fd = listen_fd_;
  loop_.remove(fd, *this);
  accept_timer_.expires_after(kAcceptPause);
  accept_timer_.async_wait([this, fd](boost::system::error_code error) {
    if (!error && listen_fd_ == fd) listen(fd);
  });
}

bool Gateway::admit(int fd) const {
  if (options_.allowed_clients.empty()) return true;
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in&>(address).sin_addr, text.data(), text.size());
  } else if (address.ss_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6&>(address).sin6_addr, text.data(), text.size());
  } else {
    return true;  // a unix socket has file permissions instead
  }
  const auto& allowed = options_.allowed_clients;
  return std::find(allowed.begin(), allowed.end(), text.data()) != allowed.end();
}

void Gateway::adopt(int fd) {
  auto connection = std::make_unique<Connection>(*this, fd);
  Connection& fresh = *connection;
  connections_.push_back(std::move(connection));
  fresh.place_ = std::prev(connections_.end());
  ++counters_.accepted;
  if (!fresh.start()) fresh.close();
}

void Gateway::closed(Connection& connection) {
  // Its own functions may still be on the stack.
  loop_.dispose(std::move(*connection.place_));
  connections_.erase(connection.place_);
  if (drained_ && connections_.empty()) {
    drain_timer_.cancel();
    std::exchange(drained_, nullptr)();
  }
}

void Gateway::drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done) {
  if (listen_fd_ >= 0) loop_.remove(std::exchange(listen_fd_, -1), *this);
  accept_timer_.cancel();
  if (connections_.empty()) return done();
  drained_ = std::move(done);
  drain_timer_.expires_at(deadline);
  drain_timer_.async_wait([this](boost::system::error_code error) {
    if (error) return;
    past_deadline_ = true;
    for (auto place = connections_.begin(); place != connections_.end();) {
      Connection& connection = **place++;
      connection.close_if_idle();
    }
  });
}

}  // namespace freshet::gateway
