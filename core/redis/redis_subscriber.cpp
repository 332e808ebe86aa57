#include "core/redis/redis_subscriber.h"

extern "C" {
#include <hiredis/async.h>
#include <hiredis/hiredis.h>
}

#include "core/redis/command.h"

namespace freshet::redis {
namespace {

constexpr milliseconds kBeat{1000};

}  // namespace

RedisSubscriber::RedisSubscriber(EventLoop& loop, LinkOptions options, std::string channel, Listener listener)
    : RedisLink(loop, std::move(options)),
      channel_(std::move(channel)),
      listener_(std::move(listener)),
      beat_(loop) {}

RedisSubscriber::~RedisSubscriber() {
  beat_.cancel();
  shut_down();
}

void RedisSubscriber::on_open() {
  const Endpoint& endpoint = options().endpoint;
  // Pub/Sub ignores the database; AUTH must come first. A refused AUTH makes SUBSCRIBE an error,
  // which take() sees.
  Pipeline hello;
  if (!endpoint.password.empty()) {
    if (endpoint.username.empty()) {
      hello.add("AUTH", endpoint.password);
    } else {
      hello.add("AUTH", endpoint.username, endpoint.password);
    }
    redisAsyncFormattedCommand(context(), nullptr, nullptr, hello.at(0).data(), hello.at(0).size());
  }
  heard_ = subscribed_ = asking_ = false;
  subscribe();
  wait_a_beat();
}

void RedisSubscriber::on_closed() { beat_.cancel(); }

void RedisSubscriber::subscribe() {
  if (!std::exchange(asking_, true)) asked_ = std::chrono::steady_clock::now();
  Pipeline command;
  command.add("SUBSCRIBE", channel_);
  const auto on_reply = [](redisAsyncContext*, void* reply, void* self) {
    static_cast<RedisSubscriber*>(self)->take(reply);
  };
  redisAsyncFormattedCommand(context(), on_reply, this, command.bytes().data(), command.bytes().size());
  mark_dirty();
}

// A connection that only listens would never notice that nobody speaks any more. Subscribing again
// is a question that is answered and changes nothing (hiredis keeps each PING's callback for ever
// in this mode).
void RedisSubscriber::wait_a_beat() {
  beat_.after(kBeat, [this] {
    if (!context()) return;
    read_now();  // it may be us who were late
    if (!context()) return;
    if (!heard_) return tear_down(Failure::kSilent);
    heard_ = false;
    subscribe();
    wait_a_beat();
  });
}

void RedisSubscriber::take(void* raw) {
  const auto* reply = static_cast<redisReply*>(raw);
  if (!reply) return;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3) return ask_tear_down();
  heard_ = true;
  const std::string_view kind(reply->element[0]->str, static_cast<std::size_t>(reply->element[0]->len));
  if (kind == "subscribe") {
    if (!std::exchange(subscribed_, true)) {
      established();
      answered();
      listener_.on_anew();
    }
    asking_ = false;
    listener_.on_heard(asked_);
  } else if (kind == "message") {
    listener_.on_message({reply->element[2]->str, static_cast<std::size_t>(reply->element[2]->len)});
  }
}

}  // namespace freshet::redis
