// What a reply need not wait for. BackgroundWriter (background.h) is the real one.
#pragma once

#include <functional>
#include <utility>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/redis/command.h"
#include "core/redis/spool_record.h"

namespace freshet::redis {

class WriteQueue {
 public:
  virtual ~WriteQueue() = default;
  // Sends `commands` behind the reply, on another connection. When its queue is full or Redis is
  // away `event` goes to the spool in their place; without one they are lost. Both must be harmless
  // when repeated. False: neither queue nor spool took it.
  virtual bool post(Pipeline commands, SpoolRecord event = {}) = 0;
  // Puts `event` into the spool, which survives the death of this process; it is applied when Redis
  // answers again, perhaps twice. Errors: kUnavailable "spool_full".
  virtual Result<void> spool(const SpoolRecord& event) = 0;
};

// Calls a function after a time, once.
using RunAfter = std::function<void(milliseconds, std::function<void()>)>;

// When what is coalesced is written: `span` after the first of it.
class FlushTimer {
 public:
  // Without `after` nothing is ever called: whoever coalesces flushes.
  FlushTimer(RunAfter run_after, milliseconds delay, std::function<void()> flush)
      : run_after_(std::move(run_after)), delay_(delay), flush_(std::move(flush)) {}
  FlushTimer(const FlushTimer&) = delete;
  FlushTimer& operator=(const FlushTimer&) = delete;
  // While it runs already nothing changes.
  void start() {
    if (running_ || !run_after_) return;
    running_ = true;
    run_after_(delay_, [this] {
      running_ = false;
      flush_();
    });
  }

 private:
  const RunAfter run_after_;
  const milliseconds delay_;
  const std::function<void()> flush_;
  bool running_ = false;
};

}  // namespace freshet::redis
