#include "core/redis/async_connection.h"

#include <sys/epoll.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

extern "C" {
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
}

namespace freshet::redis {

void MasterResolver::notify_listeners() {
  // A copy, because coroutines resumed below may create and destroy connections.
  const std::vector<AsyncConnection*> listeners(listeners_.begin(), listeners_.end());
  for (AsyncConnection* each : listeners) {
    if (listeners_.contains(each)) each->on_master_changed();
  }
}

AsyncConnection::AsyncConnection(EventLoop& loop, ConnectionOptions options)
    : loop_(loop), options_(std::move(options)), reconnect_timer_(loop), breaker_(options_.breaker) {
  flush_action_ = loop_.add_iteration_end_action([this] { flush(); });
  if (options_.resolver != nullptr) options_.resolver->add_listener(*this);
}

AsyncConnection::~AsyncConnection() {
  loop_.remove_iteration_end_action(flush_action_);
  if (options_.resolver != nullptr) options_.resolver->remove_listener(*this);
}

void AsyncConnection::shut_down() {
  stopping_ = true;
  reconnect_timer_.cancel();
  if (lookup_) {
    lookup_->cancel();
    loop_.destroy_later(std::exchange(lookup_, nullptr));
  }
  abort();
}

bool AsyncConnection::connected() const { return context_ && (context_->c.flags & REDIS_CONNECTED) != 0; }

void AsyncConnection::connect() {
  if (context_ || stopping_ || resolving_) return;
  if (options_.resolver != nullptr) return resolve_master();
  look_up_and_open(options_.endpoint);
}

void AsyncConnection::resolve_master() {
  resolving_ = true;
  spawn(resolve_and_open(alive_), [](std::exception_ptr) {});
}

Task<void> AsyncConnection::resolve_and_open(std::weak_ptr<char> alive) {
  const auto server = co_await options_.resolver->resolve();
  if (alive.expired()) co_return;
  resolving_ = false;
  if (stopping_) co_return;
  if (!server) {
    connect_failed(FailureKind::kRefused);
    co_return;
  }
  look_up_and_open(*server);
}

void AsyncConnection::look_up_and_open(const Endpoint& endpoint) {
  if (!endpoint.unix_path.empty() || is_numeric_host(endpoint.host)) return open(endpoint);
  resolving_ = true;
  lookup_ = std::make_unique<HostLookup>(
      loop_, endpoint.host, [this, server = endpoint](std::vector<std::string> addresses) mutable {
        loop_.destroy_later(std::exchange(lookup_, nullptr));
        resolving_ = false;
        if (addresses.empty()) return connect_failed(FailureKind::kRefused);
        server.host = std::move(addresses[failed_attempts_ % addresses.size()]);
        open(server);
      });
}

void AsyncConnection::on_master_changed() {
  if (context_) reconnect();
}

void AsyncConnection::connect_failed(FailureKind kind) {
  ++failed_attempts_;
  on_connect_failed();
  schedule_connect(kind);
}

void AsyncConnection::open(const Endpoint& endpoint) {
  redisAsyncContext* new_context = endpoint.unix_path.empty()
                                       ? redisAsyncConnect(endpoint.host.c_str(), endpoint.port)
                                       : redisAsyncConnectUnix(endpoint.unix_path.c_str());
  if (!new_context || new_context->err != 0) {
    if (new_context) redisAsyncFree(new_context);
    return connect_failed(FailureKind::kRefused);
  }
  context_ = new_context;
  open_ = true;
  established_ = false;
  reconnect_planned_ = false;
  abort_requested_ = false;
  failure_ = FailureKind::kRefused;
  wants_write_ = true;  // hiredis reports success or failure of the connect on EPOLLOUT
  new_context->data = this;
  new_context->ev.data = this;
  new_context->ev.addRead = [](void*) {};
  new_context->ev.delRead = [](void*) {};
  new_context->ev.addWrite = [](void* self) {
    auto* connection = static_cast<AsyncConnection*>(self);
    if (connection->in_hiredis_) {
      connection->set_write_interest(true);  // a partial write
    } else {
      connection->request_flush();
    }
  };
  new_context->ev.delWrite = [](void* self) {
    static_cast<AsyncConnection*>(self)->set_write_interest(false);
  };
  new_context->ev.cleanup = [](void* self) {
    auto* connection = static_cast<AsyncConnection*>(self);
    connection->loop_.remove(connection->context_->c.fd, *connection);
    connection->context_ = nullptr;
    connection->flush_requested_ = false;
  };
  redisAsyncSetConnectCallback(new_context, [](const redisAsyncContext*, int) {});
  redisAsyncSetDisconnectCallback(new_context, [](const redisAsyncContext*, int) {});
  if (!loop_.add(new_context->c.fd, EPOLLIN | EPOLLOUT, *this)) {
    abort();
    return;
  }
  on_open();
}

void AsyncConnection::schedule_connect(FailureKind kind) {
  if (stopping_) return;
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_real_distribution<double> jitter(0, 1);
  const bool planned = std::exchange(reconnect_planned_, false);
  const milliseconds wait = planned ? milliseconds(0) : breaker_.record_failure(kind, jitter(random));
  reconnect_timer_.after(wait, [this] { connect(); });
}

void AsyncConnection::mark_established() {
  established_ = true;
  breaker_.record_ping();
}

void AsyncConnection::set_write_interest(bool writable) {
  if (!context_ || writable == wants_write_) return;
  wants_write_ = writable;
  loop_.modify(context_->c.fd, writable ? (EPOLLIN | EPOLLOUT) : EPOLLIN, *this);
}

void AsyncConnection::request_flush() {
  if (flush_requested_) return;
  flush_requested_ = true;
  loop_.request_iteration_end_actions();
}

void AsyncConnection::flush() {
  if (!flush_requested_ || !context_) return;
  flush_requested_ = false;
  if (!connected()) return;  // written on EPOLLOUT once connected
  in_hiredis_ = true;
  redisAsyncHandleWrite(context_);
  in_hiredis_ = false;
  finish_io();
}

void AsyncConnection::on_ready(std::uint32_t events) {
  if (!context_) return;
  in_hiredis_ = true;
  if ((events & EPOLLOUT) != 0) redisAsyncHandleWrite(context_);
  if (context_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) redisAsyncHandleRead(context_);
  in_hiredis_ = false;
  finish_io();
}

void AsyncConnection::read_now() {
  if (!connected()) return;
  in_hiredis_ = true;
  redisAsyncHandleRead(context_);
  in_hiredis_ = false;
  finish_io();
}

void AsyncConnection::reconnect() {
  reconnect_planned_ = true;
  abort();
}

void AsyncConnection::abort(FailureKind kind) {
  if (context_) {
    failure_ = kind;
    in_hiredis_ = true;
    redisAsyncFree(context_);  // runs the pending callbacks with null, then the cleanup hook
    in_hiredis_ = false;
  }
  finish_io();
}

// The connection is closed exactly when the cleanup hook has run, be it by hiredis or by abort().
void AsyncConnection::finish_io() {
  if (context_ && abort_requested_) {
    abort_requested_ = false;
    abort();
    return;
  }
  if (!context_ && open_) {
    open_ = false;
    on_closed();
    if (!established_) ++failed_attempts_;
    if (!established_ && !stopping_) on_connect_failed();
    schedule_connect(failure_);
  }
  on_io_done();
}

}  // namespace freshet::redis
