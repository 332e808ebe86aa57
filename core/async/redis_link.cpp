#include "core/async/redis_link.h"

#include <sys/epoll.h>

#include <algorithm>
#include <random>

extern "C" {
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
}

namespace freshet::redis {

RedisLink::RedisLink(EventLoop& loop, LinkOptions options)
    : loop_(loop), options_(std::move(options)), reconnect_timer_(loop.io()) {
  flush_action_ = loop_.at_end_of_turn([this] { flush(); });
}

RedisLink::~RedisLink() { loop_.forget_action(flush_action_); }

void RedisLink::shut_down() {
  stopping_ = true;
  reconnect_timer_.cancel();
  tear_down();
}

bool RedisLink::connected() const { return context_ && (context_->c.flags & REDIS_CONNECTED) != 0; }

void RedisLink::connect() {
  if (context_ || stopping_) return;
  redisAsyncContext* fresh = options_.endpoint.unix_path.empty()
                                 ? redisAsyncConnect(options_.endpoint.host.c_str(), options_.endpoint.port)
                                 : redisAsyncConnectUnix(options_.endpoint.unix_path.c_str());
  if (!fresh || fresh->err != 0) {
    if (fresh) redisAsyncFree(fresh);
    schedule_connect();
    return;
  }
  context_ = fresh;
  open_ = true;
  doomed_ = false;
  wants_write_ = true;  // connected (or refused) is told by EPOLLOUT
  fresh->data = this;
  fresh->ev.data = this;
  fresh->ev.addRead = [](void*) {};
  fresh->ev.delRead = [](void*) {};
  fresh->ev.addWrite = [](void* self) {
    auto* link = static_cast<RedisLink*>(self);
    if (link->inside_) {
      link->watch(true);  // a write that did not take everything
    } else {
      link->mark_dirty();
    }
  };
  fresh->ev.delWrite = [](void* self) { static_cast<RedisLink*>(self)->watch(false); };
  fresh->ev.cleanup = [](void* self) {
    auto* link = static_cast<RedisLink*>(self);
    link->loop_.remove(link->context_->c.fd, *link);
    link->context_ = nullptr;
    link->dirty_ = false;
  };
  redisAsyncSetConnectCallback(fresh, [](const redisAsyncContext*, int) {});
  redisAsyncSetDisconnectCallback(fresh, [](const redisAsyncContext*, int) {});
  if (!loop_.add(fresh->c.fd, EPOLLIN | EPOLLOUT, *this)) {
    tear_down();
    return;
  }
  on_open();
}

void RedisLink::schedule_connect() {
  if (stopping_) return;
  const int doublings = std::min(failures_++, 16);
  const auto wait = std::min(options_.reconnect_max, options_.reconnect_min * (1 << doublings));
  thread_local std::minstd_rand random{std::random_device{}()};  // workers must not come back in step
  std::uniform_real_distribution<double> jitter(0.75, 1.25);
  reconnect_timer_.expires_after(std::chrono::duration_cast<milliseconds>(wait * jitter(random)));
  reconnect_timer_.async_wait([this](boost::system::error_code error) {
    if (!error) connect();
  });
}

void RedisLink::watch(bool writable) {
  if (!context_ || writable == wants_write_) return;
  wants_write_ = writable;
  loop_.modify(context_->c.fd, writable ? (EPOLLIN | EPOLLOUT) : EPOLLIN, *this);
}

void RedisLink::mark_dirty() {
  if (dirty_) return;
  dirty_ = true;
  loop_.request_end_of_turn();
}

void RedisLink::flush() {
  if (!dirty_ || !context_) return;
  dirty_ = false;
  if (!connected()) return;  // EPOLLOUT will come and write it
  inside_ = true;
  redisAsyncHandleWrite(context_);
  inside_ = false;
  settle();
}

void RedisLink::on_ready(std::uint32_t events) {
  if (!context_) return;
  inside_ = true;
  if ((events & EPOLLOUT) != 0) redisAsyncHandleWrite(context_);
  if (context_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) redisAsyncHandleRead(context_);
  inside_ = false;
  settle();
}

void RedisLink::read_now() {
  if (!connected()) return;
  inside_ = true;
  redisAsyncHandleRead(context_);
  inside_ = false;
  settle();
}

void RedisLink::tear_down() {
  if (context_) {
    inside_ = true;
    redisAsyncFree(context_);  // runs the pending callbacks with null, then the cleanup hook
    inside_ = false;
  }
  settle();
}

// A link is closed exactly when hiredis (by itself or by tear_down) ran the cleanup hook.
void RedisLink::settle() {
  if (context_ && doomed_) {
    doomed_ = false;
    tear_down();
    return;
  }
  if (!context_ && open_) {
    open_ = false;
    on_closed();
    schedule_connect();
  }
  on_settled();
}

}  // namespace freshet::redis
