// Listens to one Pub/Sub channel, and asks each second whether it is still heard. Messages are lost
// while disconnected.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "core/async/timer.h"
#include "core/redis/redis_link.h"

namespace freshet::redis {

struct Listener {
  std::function<void(std::string_view)> on_message;
  std::function<void()> on_anew;  // connected, again: messages may have been missed
  // Every message that was published up to then has come.
  std::function<void(std::chrono::steady_clock::time_point)> on_heard;
};

class RedisSubscriber final : public RedisLink {
 public:
  RedisSubscriber(EventLoop& loop, LinkOptions options, std::string channel, Listener listener);
  ~RedisSubscriber() override;

 private:
  void on_open() override;
  void on_closed() override;
  void on_settled() override {}
  void subscribe();
  void wait_a_beat();
  void take(void* reply);

  std::string channel_;
  const Listener listener_;
  Timer beat_;
  bool heard_ = false;                           // something, since the last beat
  bool subscribed_ = false;                      // on this connection
  bool asking_ = false;                          // a beat is not answered
  std::chrono::steady_clock::time_point asked_;  // it, or the one before
};

}  // namespace freshet::redis
