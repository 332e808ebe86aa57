// Interface for writes that a response need not wait for. Implemented by BackgroundWriter
// (background.h).
#pragma once

#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/base/time.h"
#include "core/redis/command.h"
#include "core/redis/reply.h"
#include "core/redis/spool_record.h"

namespace freshet::redis {

class WriteQueue {
 public:
  // Receives the replies to the commands, which may be errors; none if the commands may not have
  // been executed.
  using OnReplies = std::function<void(std::span<const Reply>)>;
  virtual ~WriteQueue() = default;
  // Queues `commands` for asynchronous sending on another connection. If the queue is full or Redis
  // is unavailable, spools `events` instead; without events the commands are lost. Both must be
  // idempotent. Returns false if neither queue nor spool accepted all of it. `on_replies` is called
  // at most once, and only if the commands were queued.
  virtual bool post(Pipeline commands, std::vector<SpoolRecord> events = {}, OnReplies on_replies = {}) = 0;
  // Writes `event` to the spool, which survives this process. The event is applied when Redis
  // answers again, possibly twice. Errors: kUnavailable "spool_full".
  virtual Result<void> spool(const SpoolRecord& event) = 0;
};

// Calls a function once, after a delay.
using RunAfter = std::function<void(milliseconds, std::function<void()>)>;

// Flush timer of a write buffer: calls `flush` once, `delay` after start().
class FlushTimer {
 public:
  // Without `run_after` it never fires; the owner flushes the buffer itself.
  FlushTimer(RunAfter run_after, milliseconds delay, std::function<void()> flush)
      : run_after_(std::move(run_after)), delay_(delay), flush_(std::move(flush)) {}
  FlushTimer(const FlushTimer&) = delete;
  FlushTimer& operator=(const FlushTimer&) = delete;
  // No effect while the timer is running.
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
