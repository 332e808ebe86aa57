#include "core/redis/redis_subscriber.h"

extern "C" {
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
}

#include "core/redis/command.h"

namespace freshet::redis {
namespace {

constexpr milliseconds kHeartbeatInterval{1000};

}  // namespace

RedisSubscriber::RedisSubscriber(EventLoop& loop, ConnectionOptions options, std::string channel,
                                 SubscriberCallbacks callbacks)
    : AsyncConnection(loop, std::move(options)),
      channel_(std::move(channel)),
      callbacks_(std::move(callbacks)),
      heartbeat_timer_(loop) {}

RedisSubscriber::~RedisSubscriber() {
  heartbeat_timer_.cancel();
  shut_down();
}

void RedisSubscriber::on_open() {
  const Endpoint& endpoint = options().endpoint;
  // Pub/Sub ignores the database. AUTH must come first; if it is refused, SUBSCRIBE fails and
  // handle_reply() sees that.
  Pipeline hello;
  if (!endpoint.password.empty()) {
    if (endpoint.username.empty()) {
      hello.add("AUTH", endpoint.password);
    } else {
      hello.add("AUTH", endpoint.username, endpoint.password);
    }
    redisAsyncFormattedCommand(context(), nullptr, nullptr, hello.at(0).data(), hello.at(0).size());
  }
  received_ = subscribed_ = heartbeat_pending_ = false;
  subscribe();
  schedule_heartbeat();
}

void RedisSubscriber::on_closed() { heartbeat_timer_.cancel(); }

void RedisSubscriber::subscribe() {
  if (!std::exchange(heartbeat_pending_, true)) heartbeat_sent_at_ = std::chrono::steady_clock::now();
  Pipeline command;
  command.add("SUBSCRIBE", channel_);
  const auto on_reply = [](redisAsyncContext*, void* reply, void* self) {
    static_cast<RedisSubscriber*>(self)->handle_reply(reply);
  };
  redisAsyncFormattedCommand(context(), on_reply, this, command.bytes().data(), command.bytes().size());
  request_flush();
}

// A connection that only listens would never notice a dead peer. SUBSCRIBE again as a heartbeat: it
// is answered and changes nothing. (hiredis keeps the callback of each PING for ever in this mode.)
void RedisSubscriber::schedule_heartbeat() {
  heartbeat_timer_.after(kHeartbeatInterval, [this] {
    if (!context()) return;
    read_now();  // this process, not Redis, may be late
    if (!context()) return;
    if (!received_) return abort(FailureKind::kTimeout);
    received_ = false;
    subscribe();
    schedule_heartbeat();
  });
}

void RedisSubscriber::handle_reply(void* raw) {
  const auto* reply = static_cast<redisReply*>(raw);
  if (!reply) return;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3) return request_abort();
  received_ = true;
  const std::string_view kind(reply->element[0]->str, static_cast<std::size_t>(reply->element[0]->len));
  if (kind == "subscribe") {
    if (!std::exchange(subscribed_, true)) {
      mark_established();
      record_success();
      callbacks_.on_subscribed();
    }
    heartbeat_pending_ = false;
    callbacks_.on_heartbeat(heartbeat_sent_at_);
  } else if (kind == "message") {
    callbacks_.on_message({reply->element[2]->str, static_cast<std::size_t>(reply->element[2]->len)});
  }
}

}  // namespace freshet::redis
