// A worker's threads for calls that block, so that its loop does not.
//
// Work runs on a thread of the pool; the coroutine that waits for it goes on where it was, on the
// loop's thread: the border is crossed by one post to the loop. Threads start with every signal
// blocked, since the worker's are read by its loop. Made after the fork; destroyed before the loop,
// on its thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/async/event_loop.h"
#include "core/async/task.h"
#include "core/base/result.h"

namespace freshet {

class BlockingPool {
 public:
  // `max_waiting` calls may wait for a thread; one more fails at once with kUnavailable, reason
  // `busy` (a literal).
  BlockingPool(EventLoop& loop, std::size_t threads, std::size_t max_queued, std::string_view busy_reason);
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;
  ~BlockingPool() { stop(); }

  using Clock = std::chrono::steady_clock;
  // Runs `work(index of the thread)`, which does not throw. A task that is destroyed while it waits
  // does not stop the work, whose result is dropped. What no thread has begun at `expires` fails
  // with kUnavailable `busy` when its turn comes.
  template <class T>
  Task<Result<T>> run(std::function<Result<T>(std::size_t)> work,
                      Clock::time_point expires = Clock::time_point::max());

  // Waits for work that has begun; what has not fails with kUnavailable `busy`, on the loop, if it
  // still runs. Later calls fail too.
  void stop();
  std::size_t threads() const { return threads_.size(); }

 private:
  struct Job {
    virtual ~Job() = default;
    virtual void run(std::size_t thread) = 0;
    virtual void finish() = 0;  // on the loop's thread
    Clock::time_point expires;
  };
  template <class T>
  struct Call final : Job {
    std::function<Result<T>(std::size_t)> work;
    std::optional<Result<T>> result;
    std::string_view busy;
    AsyncEvent<Result<T>>* waiting = nullptr;  // null when nobody waits any more; the loop's thread only
    void run(std::size_t thread) override { result.emplace(work(thread)); }
    void finish() override {
      if (waiting == nullptr) return;
      waiting->fire(result ? *std::move(result) : Result<T>(fail(ErrorCode::kUnavailable, busy)));
    }
  };
  bool submit(std::shared_ptr<Job> job);
  void run_jobs(std::size_t thread);
  void post_result(std::shared_ptr<Job> job);

  EventLoop& loop_;
  std::size_t max_queued_;
  std::string_view busy_reason_;
  std::mutex mutex_;
  std::condition_variable job_available_;
  std::deque<std::shared_ptr<Job>> jobs_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

template <class T>
Task<Result<T>> BlockingPool::run(std::function<Result<T>(std::size_t)> work, Clock::time_point expires) {
  // Lives in this coroutine's frame: forgets the call when the frame is destroyed.
  struct Waiter {
    AsyncEvent<Result<T>> event;
    std::shared_ptr<Call<T>> call;
    ~Waiter() { call->waiting = nullptr; }
  };
  Waiter waiter;
  waiter.call = std::make_shared<Call<T>>();
  waiter.call->work = std::move(work);
  waiter.call->busy = busy_reason_;
  waiter.call->expires = expires;
  waiter.call->waiting = &waiter.event;
  if (!submit(waiter.call)) co_return fail(ErrorCode::kUnavailable, busy_reason_);
  Result<T> result = co_await waiter.event.wait();
  co_return result;
}

}  // namespace freshet
