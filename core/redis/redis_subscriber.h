// Subscribes to one Pub/Sub channel and checks every second that the connection is alive. Messages
// published while disconnected are lost.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "core/async/timer.h"
#include "core/redis/async_connection.h"

namespace freshet::redis {

struct SubscriberCallbacks {
  std::function<void(std::string_view)> on_message;
  std::function<void()> on_subscribed;  // subscribed, possibly again: messages may have been missed
  // All messages published up to this time have been received.
  std::function<void(std::chrono::steady_clock::time_point)> on_heartbeat;
};

class RedisSubscriber final : public AsyncConnection {
 public:
  RedisSubscriber(EventLoop& loop, ConnectionOptions options, std::string channel,
                  SubscriberCallbacks callbacks);
  ~RedisSubscriber() override;

 private:
  void on_open() override;
  void on_closed() override;
  void on_io_done() override {}
  void subscribe();
  void schedule_heartbeat();
  void handle_reply(void* reply);

  std::string channel_;
  const SubscriberCallbacks callbacks_;
  Timer heartbeat_timer_;
  bool received_ = false;    // anything, since the last heartbeat
  bool subscribed_ = false;  // on this connection
  bool heartbeat_pending_ = false;
  std::chrono::steady_clock::time_point heartbeat_sent_at_;  // the pending heartbeat, or the last one
};

}  // namespace freshet::redis
