#include "fcgi/gateway/gateway.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/base/log.h"
#include "fcgi/gateway/connection.h"

namespace freshet::gateway {

namespace {

constexpr std::size_t kReadBufferBytes = 64UL * 1024;
constexpr int kAcceptsPerIteration = 16;  // so that workers share a burst
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

Gateway::Gateway(EventLoop& loop, GatewayOptions options, RequestHandler serve, RefusalHandler refuse,
                 Observer* observer)
    : loop_(loop),
      options_(std::move(options)),
      serve_(std::move(serve)),
      refuse_(std::move(refuse)),
      observer_(observer),
      reading_(loop, options_.read_timeout, [](Connection& c) { c.expire_read(); }),
      writing_(loop, options_.write_timeout, [](Connection& c) { c.expire_write(); }),
      budget_(loop, options_.request_budget, [this](Exchange& e) { on_over_budget(e); }),
      bulk_budget_(loop, options_.bulk_budget, [this](Exchange& e) { on_over_budget(e); }),
      slow_(loop, options_.slow_timeout, [this](Exchange& e) { on_slow(e); }),
      accept_timer_(loop),
      drain_timer_(loop),
      read_buffer_(kReadBufferBytes) {}

Gateway::~Gateway() = default;

void Gateway::listen(int listen_fd) {
  listen_fd_ = listen_fd;
  // A new connection wakes every waiting worker. With EPOLLEXCLUSIVE it would wake a single one,
  // and the connection would be stuck if that one is killed, stopped or drained before it accepts.
  if (!loop_.add(listen_fd, EPOLLIN, *this)) log::error("listen_watch_failed", {});
}

void Gateway::on_ready(std::uint32_t /*events*/) {
  for (int i = 0; i < kAcceptsPerIteration && listen_fd_ >= 0; ++i) {
    const int fd = accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
      if (is_allowed_client(fd)) {
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

// The listening socket stays readable while the process is out of descriptors; without a pause the
// loop would spin.
void Gateway::pause_accepting() {
  log::warning("accept_paused", {{"connections", std::to_string(connections_.size())}});
  const int fd = listen_fd_;
  loop_.remove(fd, *this);
  accept_timer_.after(kAcceptPause, [this, fd] {
    if (listen_fd_ == fd) listen(fd);
  });
}

bool Gateway::is_allowed_client(int fd) const {
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
    return true;  // unix sockets have file permissions instead
  }
  return options_.allowed_clients.contains(text.data());
}

void Gateway::adopt(int fd) {
  auto connection = std::make_unique<Connection>(*this, fd);
  Connection& accepted = *connection;
  connections_.push_back(std::move(connection));
  accepted.position_ = std::prev(connections_.end());
  ++counters_.accepted;
  if (!accepted.start()) accepted.close();
}

void Gateway::on_closed(Connection& connection) {
  // Its member functions may still be on the stack.
  loop_.destroy_later(std::move(*connection.position_));
  connections_.erase(connection.position_);
  check_drained();
}

void Gateway::check_drained() {
  if (!on_drained_ || !connections_.empty() || !detached_.empty()) return;
  drain_timer_.cancel();
  std::exchange(on_drained_, nullptr)();
}

// --- Requests in progress

void Gateway::start(Exchange& exchange) {
  if (++counters_.in_flight > options_.max_in_flight) {
    ++counters_.overloaded;
    refuse_(exchange.request, RefusalReason::kOverloaded, exchange.response);
    return on_ended(exchange, nullptr);
  }
  counters_.peak_in_flight = std::max(counters_.peak_in_flight, counters_.in_flight);
  exchange.running = true;
  Task<void> task = serve_(exchange.request, exchange.response);
  task.set_trace(exchange.request.trace);
  spawn(std::move(task), [this, &exchange](std::exception_ptr thrown) {
    exchange.running = false;
    on_ended(exchange, thrown);
  });
}

// Do not touch the exchange after this: its connection may already be reading the next request into
// it.
void Gateway::on_ended(Exchange& exchange, std::exception_ptr thrown) {
  --counters_.in_flight;
  cancel_deadlines(exchange);
  if (exchange.connection != nullptr) return exchange.connection->finish(thrown);
  // The client was answered earlier. The coroutine is still on the stack.
  --counters_.detached;
  if (thrown) log::error("application_exception_caught", {});
  loop_.destroy_later(std::move(*exchange.position));
  detached_.erase(exchange.position);
  check_drained();
}

Deadlines<Exchange>* Gateway::budget_deadlines(Budget budget) {
  if (budget == Budget::kNone) return nullptr;
  return budget == Budget::kBulk ? &bulk_budget_ : &budget_;
}

void Gateway::start_deadlines(Exchange& exchange) {
  const Request& request = exchange.request;
  exchange.budget_deadlines = budget_deadlines(request.budget);
  if (exchange.budget_deadlines != nullptr)
    exchange.budget = exchange.budget_deadlines->start(exchange, request.first_byte_at);
  if (options_.slow_timeout.count() > 0) exchange.slow = slow_.start(exchange, request.first_byte_at);
}

void Gateway::cancel_deadlines(Exchange& exchange) {
  if (auto* budget = std::exchange(exchange.budget_deadlines, nullptr)) budget->cancel(exchange.budget);
  slow_.cancel(exchange.slow);
}

void Gateway::on_over_budget(Exchange& exchange) {
  std::exchange(exchange.budget_deadlines, nullptr)->cancel(exchange.budget);
  ++counters_.over_budget;
  ++counters_.detached;
  exchange.connection->reply_over_budget();
}

void Gateway::on_slow(Exchange& exchange) {
  slow_.cancel(exchange.slow);
  exchange.slow_reported = true;
  if (observer_ != nullptr)
    observer_->on_slow(exchange.request, std::chrono::steady_clock::now() - exchange.request.first_byte_at);
}

std::unique_ptr<Exchange> Gateway::make_exchange(Connection& connection) {
  auto exchange = std::make_unique<Exchange>();
  exchange->connection = &connection;
  exchange->slow = slow_.none();
  return exchange;
}

// Called once per request. Also reports a request as slow that blocked the loop, so that no timer
// could fire.
void Gateway::report_answered(Exchange& exchange, const Response& response) {
  if (observer_ == nullptr) return;
  const auto now = std::chrono::steady_clock::now();
  const auto elapsed = now - exchange.request.first_byte_at;
  if (options_.slow_timeout.count() > 0 && elapsed >= options_.slow_timeout && !exchange.slow_reported) {
    exchange.slow_reported = true;
    observer_->on_slow(exchange.request, elapsed);
  }
  observer_->on_answered(exchange.request, response, now);
}

void Gateway::detach(std::unique_ptr<Exchange> exchange) {
  exchange->connection = nullptr;
  detached_.push_back(std::move(exchange));
  detached_.back()->position = std::prev(detached_.end());
}

const Request* Gateway::oldest_request() const {
  const Exchange* oldest = detached_.empty() ? nullptr : detached_.front().get();
  for (const auto* deadlines : {&budget_, &bulk_budget_}) {
    const Exchange* first = deadlines->first();
    if (first != nullptr &&
        (oldest == nullptr || first->request.first_byte_at < oldest->request.first_byte_at))
      oldest = first;
  }
  return oldest == nullptr ? nullptr : &oldest->request;
}

void Gateway::drain(std::chrono::steady_clock::time_point deadline, std::function<void()> done) {
  if (listen_fd_ >= 0) loop_.remove(std::exchange(listen_fd_, -1), *this);
  accept_timer_.cancel();
  if (connections_.empty() && detached_.empty()) return done();
  on_drained_ = std::move(done);
  drain_timer_.at(deadline, [this] {
    past_deadline_ = true;
    for (auto position = connections_.begin(); position != connections_.end();) {
      Connection& connection = **position++;
      connection.close_if_idle();
    }
  });
}

}  // namespace freshet::gateway
