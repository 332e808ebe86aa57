// What a reply need not wait for. BackgroundWriter (background.h) is the real one.
#pragma once

#include <functional>
#include <utility>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/redis/command.h"
#include "core/redis/stored_event.h"

namespace freshet::redis {

class Deferred {
 public:
  virtual ~Deferred() = default;
  // Sends `commands` behind the reply, on another connection. When its queue is full or Redis is
  // away `event` goes to the spool in their place; without one they are lost. Both must be harmless
  // when repeated. False: neither queue nor spool took it.
  virtual bool post(Pipeline commands, StoredEvent event = {}) = 0;
  // Puts `event` into the spool, which survives the death of this process; it is applied when Redis
  // answers again, perhaps twice. Errors: kUnavailable "spool_full".
  virtual Result<void> spool(const StoredEvent& event) = 0;
};

// Calls a function after a time, once.
using After = std::function<void(milliseconds, std::function<void()>)>;

// When what is coalesced is written: `span` after the first of it.
class FlushTimer {
 public:
  // Without `after` nothing is ever called: whoever coalesces flushes.
  FlushTimer(After after, milliseconds span, std::function<void()> flush)
      : after_(std::move(after)), span_(span), flush_(std::move(flush)) {}
  FlushTimer(const FlushTimer&) = delete;
  FlushTimer& operator=(const FlushTimer&) = delete;
  // While it runs already nothing changes.
  void start() {
    if (running_ || !after_) return;
    running_ = true;
    after_(span_, [this] {
      running_ = false;
      flush_();
    });
  }

 private:
  const After after_;
  const milliseconds span_;
  const std::function<void()> flush_;
  bool running_ = false;
};

}  // namespace freshet::redis
