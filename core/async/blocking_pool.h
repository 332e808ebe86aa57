// Thread pool for blocking calls, so that they do not block the worker's loop.
//
// Work runs on a pool thread; its result is posted to the loop, which resumes the waiting coroutine
// on the loop's thread. The threads block all signals, since the loop receives the worker's
// signals. Create after fork(); destroy on the loop's thread, before the loop.
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
  // At most `max_queued` calls wait for a thread; further calls fail at once with kUnavailable and
  // `busy_reason`, which must be a string literal.
  BlockingPool(EventLoop& loop, std::size_t threads, std::size_t max_queued, std::string_view busy_reason);
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;
  ~BlockingPool() { stop(); }

  using Clock = std::chrono::steady_clock;
  // Runs `work(thread index)`, which must not throw. Destroying the waiting task does not stop the
  // work, but discards its result. A call that no thread has started by its deadline fails with
  // kUnavailable and `busy_reason` when it leaves the queue.
  template <class T>
  Task<Result<T>> run(std::function<Result<T>(std::size_t)> work,
                      Clock::time_point deadline = Clock::time_point::max());

  // Waits for running work. Queued work, and any later call, fails with kUnavailable and
  // `busy_reason`; queued calls are completed on the loop, if it still runs.
  void stop();
  std::size_t threads() const { return threads_.size(); }

 private:
  struct Job {
    virtual ~Job() = default;
    virtual void run(std::size_t thread) = 0;
    virtual void finish() = 0;  // on the loop's thread
    Clock::time_point deadline;
  };
  template <class T>
  struct Call final : Job {
    std::function<Result<T>(std::size_t)> work;
    std::optional<Result<T>> result;
    std::string_view busy_reason;
    AsyncEvent<Result<T>>* waiter = nullptr;  // null if the waiting task is gone; loop's thread only
    void run(std::size_t thread) override { result.emplace(work(thread)); }
    void finish() override {
      if (waiter == nullptr) return;
      waiter->fire(result ? *std::move(result) : Result<T>(fail(ErrorCode::kUnavailable, busy_reason)));
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
Task<Result<T>> BlockingPool::run(std::function<Result<T>(std::size_t)> work, Clock::time_point deadline) {
  // Part of this coroutine's frame: detaches from the call when the frame is destroyed.
  struct Waiter {
    AsyncEvent<Result<T>> event;
    std::shared_ptr<Call<T>> call;
    ~Waiter() { call->waiter = nullptr; }
  };
  Waiter waiter;
  waiter.call = std::make_shared<Call<T>>();
  waiter.call->work = std::move(work);
  waiter.call->busy_reason = busy_reason_;
  waiter.call->deadline = deadline;
  waiter.call->waiter = &waiter.event;
  if (!submit(waiter.call)) co_return fail(ErrorCode::kUnavailable, busy_reason_);
  Result<T> result = co_await waiter.event.wait();
  co_return result;
}

}  // namespace freshet
