// Runs an EventLoop on its own thread, so that the test can be the blocking peer. Access the loop's
// objects only through run_on_loop().
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "core/async/event_loop.h"

namespace freshet::test {

class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;
  ~LoopThread() { stop(); }

  EventLoop& loop() { return loop_; }
  // Runs `work` on the loop's thread and returns its result.
  template <class Work>
  auto run_on_loop(Work work) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto result = task.get_future();
    loop_.post([&task] { task(); });
    return result.get();
  }
  // Afterwards the test's thread may access everything.
  void stop() {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }

 private:
  EventLoop loop_;
  std::thread thread_;
};

}  // namespace freshet::test
