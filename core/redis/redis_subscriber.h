// Listens to one Pub/Sub channel. A message may be lost while disconnected; `on_message` is therefore also
// called (with an empty text) after every (re)connection, so that listeners drop what they may have missed an
// update of.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/async/timer.h"
#include "core/redis/redis_link.h"

namespace freshet::redis {

class RedisSubscriber final : public RedisLink {
 public:
  RedisSubscriber(EventLoop& loop, LinkOptions options, std::string channel,
                  std::function<void(std::string_view)> on_message);
  ~RedisSubscriber() override;

 private:
  void on_open() override;
  void on_closed() override;
  void on_settled() override {}
  void subscribe();
  void wait_a_beat();
  void take(void* reply);

  std::string channel_;
  std::function<void(std::string_view)> on_message_;
  Timer beat_;
  bool heard_ = false;       // something, since the last beat
  bool subscribed_ = false;  // on this connection
};

}  // namespace freshet::redis
