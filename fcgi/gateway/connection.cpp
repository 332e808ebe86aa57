#include "fcgi/gateway/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/base/log.h"

namespace freshet::gateway {

namespace {

constexpr std::uint32_t kReadEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;
// A buffer that a large request or reply has grown beyond this is given back.
constexpr std::size_t kKeepBuffer = 16 * 1024;

void release(std::string& buffer) {
  if (buffer.capacity() > kKeepBuffer) {
    std::string().swap(buffer);
  } else {
    buffer.clear();
  }
}

}  // namespace

Connection::Connection(Gateway& gateway, int fd)
    : gateway_(gateway),
      fd_(fd),
      framer_(gateway.options_.limits),
      read_deadline_(gateway.reading_.none()),
      write_deadline_(gateway.writing_.none()) {}

Connection::~Connection() = default;

bool Connection::start() { return gateway_.loop_.add(fd_, kReadEvents, *this); }

void Connection::on_ready(std::uint32_t events) {
  if (state_ == State::kWriting && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) send_more();
  if (state_ == State::kClosed) return;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) ended_ = true;
  pump();
}

// Reads and serves until the socket has nothing more or a request is being served. A loop, not recursion:
// handlers that finish at once would otherwise let a fast peer grow the stack.
void Connection::pump() {
  if (pumping_) return;
  pumping_ = true;
  while (state_ == State::kReading && readable_ && read_some()) {
  }
  pumping_ = false;
}

// One read. False when the socket is empty or the connection is gone.
bool Connection::read_some() {
  auto& scratch = gateway_.scratch_;
  const ssize_t got = recv(fd_, scratch.data(), scratch.size(), MSG_DONTWAIT);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    readable_ = false;
    return false;
  }
  if (got <= 0) {
    close();
    return false;
  }
  const auto size = static_cast<std::size_t>(got);
  // A short read has emptied the socket; what comes later makes a new edge. But the end that came with these
  // bytes has made its own.
  if (size < scratch.size() && !ended_) readable_ = false;
  const std::string_view fresh(scratch.data(), size);
  const bool first = received_.empty();
  if (!first) received_.append(fresh);
  const std::string_view request = first ? fresh : std::string_view(received_);
  switch (framer_.advance(request)) {
    case FrameState::kMore:
      if (first) {
        received_.assign(fresh);
        request_.received = std::chrono::steady_clock::now();
        read_deadline_ = gateway_.reading_.start(*this);
      }
      return true;
    case FrameState::kWhole:
      if (first) request_.received = std::chrono::steady_clock::now();
      serve(request);
      return true;
    case FrameState::kBad:
    case FrameState::kTooLarge:
      ++gateway_.counters_.protocol_errors;
      close();
      return false;
  }
  return false;
}

void Connection::serve(std::string_view bytes) {
  gateway_.reading_.cancel(read_deadline_);
  const auto received_at = request_.received;
  std::string body = std::move(request_.body);
  request_ = Request{};
  request_.body = std::move(body);
  request_.received = received_at;
  response_.status = 200;
  response_.content_type = "application/json";
  response_.headers.clear();
  release(response_.body);

  keep_ = framer_.keep_connection();
  const auto decoded = codec_.decode(bytes, request_, wire_);
  framer_.reset();
  release(received_);
  if (!decoded) {
    ++gateway_.counters_.protocol_errors;
    close();
    return;
  }
  state_ = State::kServing;
  GatewayCounters& counters = gateway_.counters_;
  if (++counters.in_flight > gateway_.options_.max_in_flight) {
    ++counters.overloaded;
    gateway_.overloaded_(response_);
    return finish(nullptr);
  }
  counters.max_in_flight = std::max(counters.max_in_flight, counters.in_flight);
  spawn(gateway_.application_(request_, response_), [this](std::exception_ptr thrown) { finish(thrown); });
}

void Connection::finish(std::exception_ptr thrown) {
  --gateway_.counters_.in_flight;
  ++gateway_.counters_.requests;
  if (thrown) {
    log::error("application_threw", {});
    codec_.abandon();
    close();
    return;
  }
  codec_.encode(request_, response_, wire_);
  release(request_.body);
  sent_ = 0;
  state_ = State::kWriting;
  send_more();
  pump();
}

void Connection::send_more() {
  while (sent_ < wire_.size()) {
    const ssize_t got = send(fd_, wire_.data() + sent_, wire_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (got >= 0) {
      sent_ += static_cast<std::size_t>(got);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (write_deadline_ == gateway_.writing_.none()) {
        write_deadline_ = gateway_.writing_.start(*this);
        gateway_.loop_.modify(fd_, kReadEvents | EPOLLOUT, *this);
      }
      return;
    } else if (errno != EINTR) {
      close();
      return;
    }
  }
  if (write_deadline_ != gateway_.writing_.none()) {
    gateway_.writing_.cancel(write_deadline_);
    gateway_.loop_.modify(fd_, kReadEvents, *this);
  }
  release(wire_);
  if (!keep_ || gateway_.last_request()) return close();
  state_ = State::kReading;
}

void Connection::expire_read() {
  ++gateway_.counters_.read_timeouts;
  close();
}

void Connection::expire_write() {
  ++gateway_.counters_.write_timeouts;
  close();
}

void Connection::close_if_idle() {
  if (state_ == State::kReading) close();
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  readable_ = false;
  gateway_.reading_.cancel(read_deadline_);
  gateway_.writing_.cancel(write_deadline_);
  gateway_.loop_.remove(fd_, *this);
  ::close(fd_);
  gateway_.closed(*this);
}

}  // namespace freshet::gateway
