// One hiredis asynchronous context on the EventLoop: connect, epoll registration, teardown,
// reconnect with backoff. RedisConnection (commands) and RedisSubscriber (messages) derive from it.
//
// Rules for hiredis 0.14 that this file must follow:
// - Destroy a context after an error or a deadline and never use it again. Never call
//   redisReconnect: it forgets timeouts, and a late reply would answer the next command.
// - redisAsyncFree runs the pending callbacks with a null reply outside a callback, but is deferred
//   inside one. Call it only outside.
// - hiredis closes its descriptor itself. Remove it from epoll in the cleanup hook, which runs
//   before that.
// - Never call HandleRead or HandleWrite from a callback.
// - The disconnect callback fires only after a successful connect, so do not rely on it. The
//   cleanup hook always runs.
//
// A host name is looked up before each attempt (core/async/host_lookup.h), so a name that moves to
// another address is followed. If the name has several addresses, attempts alternate between them.
//
// The breaker (breaker.h) decides when to try again. With sentinels the master is resolved before
// each attempt (sentinel.h), as is the node of a cluster to subscribe to.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "core/async/event_loop.h"
#include "core/async/host_lookup.h"
#include "core/async/task.h"
#include "core/async/timer.h"
#include "core/base/time.h"
#include "core/redis/breaker.h"
#include "core/redis/redis_url.h"

struct redisAsyncContext;

namespace freshet::redis {

class MasterResolver;

struct ConnectionOptions {
  Endpoint endpoint;
  milliseconds timeout{50};  // of one command, of the handshake, and of connecting
  BreakerOptions breaker;
  milliseconds retry_within{100};      // a pipeline is not retried later than this after its first attempt
  MasterResolver* resolver = nullptr;  // resolves where to connect; null: to the endpoint
};

// Must outlive the loop's run().
class AsyncConnection : public FdHandler {
 public:
  AsyncConnection(EventLoop& loop, ConnectionOptions options);
  AsyncConnection(const AsyncConnection&) = delete;
  AsyncConnection& operator=(const AsyncConnection&) = delete;
  virtual ~AsyncConnection();  // derived destructors must call shut_down() first

  void connect();  // connects now; reconnects automatically later
  const Breaker& breaker() const { return breaker_; }
  // The current or pending connection is to a server that is no longer the master: reconnects.
  void on_master_changed();

 protected:
  // The context exists and accepts commands, which are sent once the socket is connected.
  virtual void on_open() = 0;
  // The context is gone and every callback has run (with a null reply).
  virtual void on_closed() = 0;
  // hiredis has returned: the callbacks of this read or write have run, and commands may be
  // appended again.
  virtual void on_io_done() = 0;

  // A connection attempt ended before mark_established().
  virtual void on_connect_failed() {}

  void shut_down();  // closes for good; pending callbacks run with a null reply
  // Closes the context; on_closed() is called before it returns. Must not be called from callbacks.
  // `kind` is passed to the breaker.
  void abort(FailureKind kind = FailureKind::kRefused);
  // As abort(), for callbacks: takes effect when hiredis has returned.
  void request_abort() { abort_requested_ = true; }
  // As abort(), but connects again at once and is not counted as a failure. REQUIRES: connected.
  void reconnect();
  void read_now();          // reads what the socket has; not from callbacks
  void request_flush();     // commands were appended: sends them at the end of the loop iteration
  void mark_established();  // the handshake succeeded
  void record_success() { breaker_.record_success(); }  // a command was answered
  bool connected() const;
  redisAsyncContext* context() { return context_; }
  EventLoop& loop() { return loop_; }
  const ConnectionOptions& options() const { return options_; }

 private:
  void on_ready(std::uint32_t events) final;
  void flush();
  void finish_io();
  void resolve_master();
  Task<void> resolve_and_open(std::weak_ptr<char> alive);
  void look_up_and_open(const Endpoint& endpoint);
  void open(const Endpoint& endpoint);
  void connect_failed(FailureKind kind);
  void schedule_connect(FailureKind kind);
  void set_write_interest(bool writable);

  EventLoop& loop_;
  ConnectionOptions options_;
  Timer reconnect_timer_;
  std::size_t flush_action_ = 0;
  redisAsyncContext* context_ = nullptr;
  Breaker breaker_;
  // Lets resolve_and_open() detect that this was destroyed.
  std::shared_ptr<char> alive_ = std::make_shared<char>();
  FailureKind failure_ = FailureKind::kRefused;  // why the connection ended
  bool established_ = false;
  bool reconnect_planned_ = false;  // the connection is closed on purpose, not by a failure
  bool resolving_ = false;
  std::unique_ptr<HostLookup> lookup_;  // the lookup in progress
  std::size_t failed_attempts_ = 0;     // selects among a name's addresses
  bool flush_requested_ = false;
  bool wants_write_ = false;
  bool in_hiredis_ = false;
  bool abort_requested_ = false;
  bool open_ = false;  // between on_open() and on_closed()
  bool stopping_ = false;
};

// Resolves where to connect if that may change. Must outlive the connections that use it.
class MasterResolver {
 public:
  virtual ~MasterResolver() = default;
  // Errors: kUnavailable if the address is unknown.
  virtual Task<Result<Endpoint>> resolve() = 0;
  // `connection` is notified when the result of resolve() has changed, until remove_listener().
  void add_listener(AsyncConnection& connection) { listeners_.insert(&connection); }
  void remove_listener(AsyncConnection& connection) { listeners_.erase(&connection); }

 protected:
  void notify_listeners();

 private:
  std::set<AsyncConnection*> listeners_;
};

}  // namespace freshet::redis
