// The threads that block for the worker's loop, and recall on them.
#include "core/async/blocking_pool.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>

#include "tests/search/corpus.h"
#include "tests/support/loop_thread.h"

using namespace freshet;
using namespace freshet::test;

namespace {

Task<void> give(Task<Result<int>> task, std::promise<Result<int>>& answer) {
  auto result = co_await task;
  answer.set_value(std::move(result));
}

// Starts `work` on the loop's thread; the future has its result.
std::future<Result<int>> start(LoopThread& thread, BlockingPool& pool, std::promise<Result<int>>& answer,
                               std::function<Result<int>(std::size_t)> work) {
  thread.on_loop([&] {
    spawn(give(pool.run<int>(std::move(work)), answer), [](const std::exception_ptr&) {});
    return 0;
  });
  return answer.get_future();
}

struct Fixture {
  LoopThread thread;
  std::unique_ptr<BlockingPool> pool;
  std::promise<Result<int>> answers[4];
  std::promise<void> gate;
  std::shared_future<void> opened{gate.get_future()};
  void make(std::size_t threads, std::size_t waiting) {
    pool = std::make_unique<BlockingPool>(thread.loop(), threads, waiting, "pool_busy");
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "work runs off the loop's thread and its coroutine goes on there", "[pool]") {
  make(1, 4);
  const auto loop_thread = thread.on_loop([] { return std::this_thread::get_id(); });
  std::thread::id worked;
  std::promise<std::thread::id> resumed;
  thread.on_loop([&] {
    spawn(
        [](Task<Result<int>> task, std::promise<std::thread::id>& where) -> Task<void> {
          auto result = co_await task;
          static_cast<void>(result);
          where.set_value(std::this_thread::get_id());
        }(pool->run<int>([&](std::size_t) -> Result<int> {
          worked = std::this_thread::get_id();
          return 1;
        }),
                                                                         resumed),
        [](const std::exception_ptr&) {});
    return 0;
  });
  CHECK(resumed.get_future().get() == loop_thread);
  CHECK(worked != loop_thread);
}

TEST_CASE_METHOD(Fixture, "calls beyond the queue fail at once", "[pool]") {
  make(1, 1);
  std::promise<void> begun;
  auto first = start(thread, *pool, answers[0], [&](std::size_t) -> Result<int> {
    begun.set_value();
    opened.wait();
    return 1;
  });
  begun.get_future().wait();
  auto second = start(thread, *pool, answers[1], [](std::size_t) -> Result<int> { return 2; });
  const auto third = start(thread, *pool, answers[2], [](std::size_t) -> Result<int> { return 3; }).get();
  REQUIRE_FALSE(third.has_value());
  CHECK(third.error().reason == "pool_busy");
  gate.set_value();
  CHECK(first.get().value() == 1);
  CHECK(second.get().value() == 2);
}

TEST_CASE_METHOD(Fixture, "a stop waits for what has begun and fails what has not", "[pool]") {
  make(1, 4);
  std::promise<void> begun;
  auto first = start(thread, *pool, answers[0], [&](std::size_t) -> Result<int> {
    begun.set_value();
    opened.wait();
    return 1;
  });
  begun.get_future().wait();
  std::atomic<bool> ran{false};
  auto second = start(thread, *pool, answers[1], [&](std::size_t) -> Result<int> {
    ran = true;
    return 2;
  });
  std::thread opener([&] { gate.set_value(); });
  thread.on_loop([&] {
    pool->stop();
    return 0;
  });
  opener.join();
  CHECK(first.get().value() == 1);
  const Result<int> last = second.get();
  CHECK(last.has_value() == ran);  // the thread may have been quick enough to take it before the stop
  CHECK_FALSE(
      start(thread, *pool, answers[2], [](std::size_t) -> Result<int> { return 3; }).get().has_value());
}

TEST_CASE_METHOD(Fixture, "a pool may go away with work in flight, and its answer come after that",
                 "[pool]") {
  make(2, 8);
  std::promise<void> begun;
  auto answer = start(thread, *pool, answers[0], [&](std::size_t) -> Result<int> {
    begun.set_value();
    opened.wait();
    return 1;
  });
  begun.get_future().wait();
  thread.stop();  // this thread's from now on
  gate.set_value();
  pool.reset();
  thread.loop().io().restart();
  thread.loop().io().poll();
  REQUIRE(answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  CHECK(answer.get().value() == 1);
}

TEST_CASE_METHOD(Fixture, "threads of the pool take no signal", "[pool]") {
  make(1, 4);
  const auto mask = start(thread, *pool, answers[0], [](std::size_t) -> Result<int> {
                      sigset_t blocked;
                      pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
                      return sigismember(&blocked, SIGTERM) + sigismember(&blocked, SIGHUP);
                    }).get();
  CHECK(mask.value() == 2);
}

TEST_CASE("pooled recall finds what was written", "[search]") {
  const TemporaryFolder folder;
  Settings settings;
  settings.search.index = folder / "index";
  write(settings, {item("a", "whale")});
  LoopThread thread;
  auto recall =
      thread.on_loop([&] { return std::make_unique<store::PooledRecall>(settings, thread.loop()); });
  std::promise<Result<feed::Recalled>> answer;
  thread.on_loop([&] {
    spawn(
        [](Task<Result<feed::Recalled>> task, std::promise<Result<feed::Recalled>>& to) -> Task<void> {
          auto result = co_await task;
          to.set_value(std::move(result));
        }(recall->search({"whale", {}, kNow, 10}), answer),
        [](const std::exception_ptr&) {});
    return 0;
  });
  CHECK(ids(answer.get_future().get().value()) == std::vector<std::string>{"a"});
  thread.on_loop([&] {
    recall.reset();
    return 0;
  });
}
