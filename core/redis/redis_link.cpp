#include "core/redis/redis_link.h"

#include <sys/epoll.h>

#include <algorithm>
#include <random>
#include <vector>

extern "C" {
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
}

namespace freshet::redis {

void Finder::tell_all() {
  const std::vector<RedisLink*> links(told_.begin(), told_.end());  // whom it wakes may make and end links
  for (RedisLink* each : links) {
    if (told_.contains(each)) each->server_moved();
  }
}

RedisLink::RedisLink(EventLoop& loop, LinkOptions options)
    : loop_(loop), options_(std::move(options)), reconnect_timer_(loop), breaker_(options_.breaker) {
  flush_action_ = loop_.add_iteration_end_action([this] { flush(); });
  if (options_.finder != nullptr) options_.finder->tell(*this);
}

RedisLink::~RedisLink() {
  loop_.remove_iteration_end_action(flush_action_);
  if (options_.finder != nullptr) options_.finder->forget(*this);
}

void RedisLink::shut_down() {
  stopping_ = true;
  reconnect_timer_.cancel();
  tear_down();
}

bool RedisLink::connected() const { return context_ && (context_->c.flags & REDIS_CONNECTED) != 0; }

void RedisLink::connect() {
  if (context_ || stopping_ || asking_) return;
  if (options_.finder != nullptr) return ask_where();
  open(options_.endpoint);
}

void RedisLink::ask_where() {
  asking_ = true;
  spawn(find_and_open(alive_), [](std::exception_ptr) {});
}

Task<void> RedisLink::find_and_open(std::weak_ptr<char> alive) {
  const auto server = co_await options_.finder->find();
  if (alive.expired()) co_return;
  asking_ = false;
  if (stopping_) co_return;
  if (!server) {
    not_made(Failure::kRefused);
    co_return;
  }
  open(*server);
}

void RedisLink::server_moved() {
  if (context_) replace();
}

void RedisLink::not_made(Failure how) {
  on_not_made();
  schedule_connect(how);
}

void RedisLink::open(const Endpoint& endpoint) {
  redisAsyncContext* fresh = endpoint.unix_path.empty()
                                 ? redisAsyncConnect(endpoint.host.c_str(), endpoint.port)
                                 : redisAsyncConnectUnix(endpoint.unix_path.c_str());
  if (!fresh || fresh->err != 0) {
    if (fresh) redisAsyncFree(fresh);
    return not_made(Failure::kRefused);
  }
  context_ = fresh;
  open_ = true;
  established_ = false;
  planned_ = false;
  doomed_ = false;
  how_ = Failure::kRefused;
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

void RedisLink::schedule_connect(Failure how) {
  if (stopping_) return;
  thread_local std::minstd_rand random{std::random_device{}()};
  std::uniform_real_distribution<double> jitter(0, 1);
  const bool planned = std::exchange(planned_, false);
  const milliseconds wait = planned ? milliseconds(0) : breaker_.failed(how, jitter(random));
  reconnect_timer_.after(wait, [this] { connect(); });
}

void RedisLink::established() {
  established_ = true;
  breaker_.answered();
}

void RedisLink::watch(bool writable) {
  if (!context_ || writable == wants_write_) return;
  wants_write_ = writable;
  loop_.modify(context_->c.fd, writable ? (EPOLLIN | EPOLLOUT) : EPOLLIN, *this);
}

void RedisLink::mark_dirty() {
  if (dirty_) return;
  dirty_ = true;
  loop_.request_iteration_end_actions();
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

void RedisLink::replace() {
  planned_ = true;
  tear_down();
}

void RedisLink::tear_down(Failure how) {
  if (context_) {
    how_ = how;
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
    if (!established_ && !stopping_) on_not_made();
    schedule_connect(how_);
  }
  on_settled();
}

}  // namespace freshet::redis
