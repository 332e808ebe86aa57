// One hiredis asynchronous context on the EventLoop: connecting, epoll registration, tearing down,
// connecting again with back-off. RedisConnection (commands) and RedisSubscriber (messages) are
// built on it.
//
// The rules of hiredis 0.14 that this file keeps, each learnt the hard way:
//  - A context that had an error, or a deadline, is destroyed and never used again; redisReconnect
//  is never called (it forgets timeouts,
//    and a late reply would answer the next command).
//  - redisAsyncFree outside a callback runs the pending callbacks with a null reply; inside one it
//  is deferred. So it is only called outside.
//  - hiredis closes its descriptor itself: it leaves epoll in the cleanup hook, before that.
//  - HandleRead and HandleWrite are never called from a callback.
//  - The disconnect callback fires only after a successful connect, so nothing depends on it; the
//  cleanup hook always runs.
//
// When it is tried again is the breaker's decision (breaker.h). Where Redis is, with sentinels, is
// asked again before each attempt (sentinel.h), as is which node of a cluster to listen to.
#pragma once

#include <chrono>
#include <memory>
#include <set>
#include <string>

#include "core/async/event_loop.h"
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
  milliseconds timeout{50};  // of one command, of the hand-shake, and of connecting
  BreakerOptions breaker;
  milliseconds retry_within{100};  // no second try of a pipeline begins later than this after the first
  MasterResolver* resolver = nullptr;        // says where to connect to; null: to the endpoint
};

// Must outlive the loop's run.
class AsyncConnection : public FdHandler {
 public:
  // Does not connect yet.
  AsyncConnection(EventLoop& loop, ConnectionOptions options);
  AsyncConnection(const AsyncConnection&) = delete;
  AsyncConnection& operator=(const AsyncConnection&) = delete;
  virtual ~AsyncConnection();  // derived destructors call shut_down() first

  void connect();  // now; later attempts follow by themselves
  const Breaker& breaker() const { return breaker_; }
  // What is connected, or about to be, is to a server that is none of ours any more.
  void on_master_changed();

 protected:
  // The context exists and takes commands, which leave once the socket is connected.
  virtual void on_open() = 0;
  // The context is gone and every callback has run (with a null reply).
  virtual void on_closed() = 0;
  // hiredis has returned: callbacks of this read or write have run, and commands may be appended
  // again.
  virtual void on_io_done() = 0;

  // An attempt ended before established().
  virtual void on_connect_failed() {}

  void shut_down();  // closes for good; pending callbacks run with a null reply
  // Outside callbacks only; on_closed() follows before it returns. `how` is for the breaker.
  void abort(FailureKind kind = FailureKind::kRefused);
  void request_abort() { abort_requested_ = true; }  // from a callback: torn down when hiredis has returned
  // As tear_down(), for another connection at once: no failure. REQUIRES: connected.
  void reconnect();
  void read_now();                           // takes what the socket has; outside callbacks only
  void request_flush();                         // commands were appended: they leave at the end of the turn
  void mark_established();                        // the hand-shake was answered well
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
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // for a question that outlives this
  FailureKind failure_ = FailureKind::kRefused;                         // it ended
  bool established_ = false;
  bool reconnect_planned_ = false;  // its end is no failure
  bool resolving_ = false;   // where the master is
  bool flush_requested_ = false;
  bool wants_write_ = false;  // epoll is watching for EPOLLOUT
  bool in_hiredis_ = false;       // inside a hiredis call
  bool abort_requested_ = false;
  bool open_ = false;  // on_open() was called and on_closed() was not yet
  bool stopping_ = false;
};

// Says where to connect to when this may change. Outlives the links that use it.
class MasterResolver {
 public:
  virtual ~MasterResolver() = default;
  // Errors: kUnavailable: nobody knows.
  virtual Task<Result<Endpoint>> resolve() = 0;
  // `link` is told when the answer has changed, until forget().
  void add_listener(AsyncConnection& link) { listeners_.insert(&link); }
  void remove_listener(AsyncConnection& link) { listeners_.erase(&link); }

 protected:
  void notify_listeners();

 private:
  std::set<AsyncConnection*> listeners_;
};

}  // namespace freshet::redis
