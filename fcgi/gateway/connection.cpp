#include "fcgi/gateway/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/base/log.h"

namespace freshet::gateway {

namespace {

constexpr std::uint32_t kReadEvents = EPOLLIN | EPOLLRDHUP | EPOLLET;
// A buffer that grew beyond this for a large request or reply is freed rather than reused.
constexpr std::size_t kMaxRetainedBytes = 16UL * 1024;

void clear_buffer(std::string& buffer) {
  if (buffer.capacity() > kMaxRetainedBytes) {
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
      exchange_(gateway.make_exchange(*this)),
      read_deadline_(gateway.reading_.none()),
      write_deadline_(gateway.writing_.none()) {}

Connection::~Connection() = default;

bool Connection::start() { return gateway_.loop_.add(fd_, kReadEvents, *this); }

void Connection::on_ready(std::uint32_t events) {
  if (state_ == State::kWriting && (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) send_more();
  if (state_ == State::kClosed) return;
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) readable_ = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) peer_closed_ = true;
  pump();
}

// Reads and serves until the socket has no more data or a request is in progress. A loop rather
// than recursion: with handlers that finish immediately, a fast peer could otherwise grow the
// stack.
void Connection::pump() {
  if (pumping_) return;
  pumping_ = true;
  while (state_ == State::kReading && readable_ && read_some()) {
  }
  pumping_ = false;
}

// Reads once. False if the socket is empty or the connection is closed.
bool Connection::read_some() {
  auto& scratch = gateway_.read_buffer_;
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
  // A short read drains the socket, and later data triggers a new edge. If the peer closed its
  // side, that edge has already fired, so reading must continue.
  if (size < scratch.size() && !peer_closed_) readable_ = false;
  const std::string_view chunk(scratch.data(), size);
  const bool first = received_.empty();
  if (!first) received_.append(chunk);
  const std::string_view request = first ? chunk : std::string_view(received_);
  switch (framer_.advance(request)) {
    case FrameState::kIncomplete:
      if (first) {
        received_.assign(chunk);
        received_at_ = std::chrono::steady_clock::now();
        read_deadline_ = gateway_.reading_.start(*this);
      }
      return true;
    case FrameState::kComplete:
      if (first) received_at_ = std::chrono::steady_clock::now();
      serve(request);
      return true;
    case FrameState::kMalformed:
    case FrameState::kTooLarge:
      ++gateway_.counters_.protocol_errors;
      close();
      return false;
  }
  return false;
}

void Connection::serve(std::string_view bytes) {
  gateway_.reading_.cancel(read_deadline_);
  Exchange& exchange = *exchange_;
  std::string body = std::move(exchange.request.body);
  exchange.request = Request{};
  exchange.request.body = std::move(body);
  exchange.request.first_byte_at = received_at_;
  exchange.request.last_byte_at = received_.empty() ? received_at_ : std::chrono::steady_clock::now();
  exchange.slow_reported = false;
  exchange.response.status = 200;
  exchange.response.content_type = "application/json";
  exchange.response.headers.clear();
  clear_buffer(exchange.response.body);

  keep_alive_ = framer_.keep_connection();
  const auto decoded = exchange.codec.decode(bytes, exchange.request, wire_);
  framer_.reset();
  clear_buffer(received_);
  if (!decoded) {
    ++gateway_.counters_.protocol_errors;
    close();
    return;
  }
  state_ = State::kServing;
  exchange.request.trace.published_phase = gateway_.options_.phase_slot;
  gateway_.start(exchange);
  // The request may have finished already, and its exchange be ready for the next one. Deadlines
  // apply only if it is still waiting for something.
  if (state_ == State::kServing) gateway_.start_deadlines(exchange);
}

void Connection::finish(std::exception_ptr thrown) {
  ++gateway_.counters_.requests;
  Exchange& exchange = *exchange_;
  if (thrown) {
    log::error("application_exception_caught", {});
    exchange.codec.end_request();
    close();
    return;
  }
  gateway_.report_answered(exchange, exchange.response);
  exchange.codec.encode(exchange.request, exchange.response, wire_);
  clear_buffer(exchange.request.body);
  send_reply();
}

void Connection::reply_over_budget() {
  ++gateway_.counters_.requests;
  Response response;
  gateway_.refuse_(exchange_->request, RefusalReason::kOverBudget, response);
  gateway_.report_answered(*exchange_, response);
  exchange_->codec.encode_reply(exchange_->request, response, wire_);
  gateway_.detach(std::exchange(exchange_, gateway_.make_exchange(*this)));
  send_reply();
}

void Connection::send_reply() {
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
  clear_buffer(wire_);
  if (!keep_alive_ || gateway_.is_past_deadline()) return close();
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
  gateway_.on_closed(*this);
}

}  // namespace freshet::gateway
