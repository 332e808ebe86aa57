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

class Finder;

struct LinkOptions {
  Endpoint endpoint;
  milliseconds timeout{50};  // of one command, of the hand-shake, and of connecting
  BreakerOptions breaker;
  milliseconds retry_within{100};  // no second try of a pipeline begins later than this after the first
  Finder* finder = nullptr;        // says where to connect to; null: to the endpoint
};

// Must outlive the loop's run.
class RedisLink : public FdHandler {
 public:
  // Does not connect yet.
  RedisLink(EventLoop& loop, LinkOptions options);
  RedisLink(const RedisLink&) = delete;
  RedisLink& operator=(const RedisLink&) = delete;
  virtual ~RedisLink();  // derived destructors call shut_down() first

  void connect();  // now; later attempts follow by themselves
  const Breaker& breaker() const { return breaker_; }
  // What is connected, or about to be, is to a server that is none of ours any more.
  void server_moved();

 protected:
  // The context exists and takes commands, which leave once the socket is connected.
  virtual void on_open() = 0;
  // The context is gone and every callback has run (with a null reply).
  virtual void on_closed() = 0;
  // hiredis has returned: callbacks of this read or write have run, and commands may be appended
  // again.
  virtual void on_settled() = 0;

  // An attempt ended before established().
  virtual void on_not_made() {}

  void shut_down();  // closes for good; pending callbacks run with a null reply
  // Outside callbacks only; on_closed() follows before it returns. `how` is for the breaker.
  void tear_down(Failure how = Failure::kRefused);
  void ask_tear_down() { doomed_ = true; }  // from a callback: torn down when hiredis has returned
  // As tear_down(), for another connection at once: no failure. REQUIRES: connected.
  void replace();
  void read_now();                           // takes what the socket has; outside callbacks only
  void mark_dirty();                         // commands were appended: they leave at the end of the turn
  void established();                        // the hand-shake was answered well
  void answered() { breaker_.succeeded(); }  // a command was answered
  bool connected() const;
  redisAsyncContext* context() { return context_; }
  EventLoop& loop() { return loop_; }
  const LinkOptions& options() const { return options_; }

 private:
  void on_ready(std::uint32_t events) final;
  void flush();
  void settle();
  void ask_where();
  Task<void> find_and_open(std::weak_ptr<char> alive);
  void open(const Endpoint& endpoint);
  void not_made(Failure how);
  void schedule_connect(Failure how);
  void watch(bool writable);

  EventLoop& loop_;
  LinkOptions options_;
  Timer reconnect_timer_;
  std::size_t flush_action_ = 0;
  redisAsyncContext* context_ = nullptr;
  Breaker breaker_;
  std::shared_ptr<char> alive_ = std::make_shared<char>();  // for a question that outlives this
  Failure how_ = Failure::kRefused;                         // it ended
  bool established_ = false;
  bool planned_ = false;  // its end is no failure
  bool asking_ = false;   // where the master is
  bool dirty_ = false;
  bool wants_write_ = false;  // epoll is watching for EPOLLOUT
  bool inside_ = false;       // inside a hiredis call
  bool doomed_ = false;
  bool open_ = false;  // on_open() was called and on_closed() was not yet
  bool stopping_ = false;
};

// Says where to connect to when this may change. Outlives the links that use it.
class Finder {
 public:
  virtual ~Finder() = default;
  // Errors: kUnavailable: nobody knows.
  virtual Task<Result<Endpoint>> find() = 0;
  // `link` is told when the answer has changed, until forget().
  void tell(RedisLink& link) { told_.insert(&link); }
  void forget(RedisLink& link) { told_.erase(&link); }

 protected:
  void tell_all();

 private:
  std::set<RedisLink*> told_;
};

}  // namespace freshet::redis
