#include "core/async/redis_subscriber.h"

extern "C" {
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
}

#include "core/async/command.h"

namespace freshet::redis {

RedisSubscriber::RedisSubscriber(EventLoop& loop, LinkOptions options, std::string channel,
                                 std::function<void(std::string_view)> on_message)
    : RedisLink(loop, std::move(options)), channel_(std::move(channel)), on_message_(std::move(on_message)) {}

RedisSubscriber::~RedisSubscriber() { shut_down(); }

void RedisSubscriber::on_open() {
  const Endpoint& endpoint = options().endpoint;
  // Pub/Sub ignores the database; AUTH must come first. A refused AUTH makes SUBSCRIBE an error, which take()
  // sees.
  Pipeline hello;
  if (!endpoint.password.empty()) {
    if (endpoint.username.empty()) {
      hello.add("AUTH", endpoint.password);
    } else {
      hello.add("AUTH", endpoint.username, endpoint.password);
    }
    redisAsyncFormattedCommand(context(), nullptr, nullptr, hello.at(0).data(), hello.at(0).size());
  }
  Pipeline subscribe;
  subscribe.add("SUBSCRIBE", channel_);
  const auto on_reply = [](redisAsyncContext*, void* reply, void* self) {
    static_cast<RedisSubscriber*>(self)->take(reply);
  };
  redisAsyncFormattedCommand(context(), on_reply, this, subscribe.bytes().data(), subscribe.bytes().size());
  mark_dirty();
}

void RedisSubscriber::take(void* raw) {
  const auto* reply = static_cast<redisReply*>(raw);
  if (!reply) return;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3) return ask_tear_down();
  const std::string_view kind(reply->element[0]->str, static_cast<std::size_t>(reply->element[0]->len));
  if (kind == "subscribe") {
    reset_backoff();
    on_message_({});
  } else if (kind == "message") {
    on_message_({reply->element[2]->str, static_cast<std::size_t>(reply->element[2]->len)});
  }
}

}  // namespace freshet::redis
