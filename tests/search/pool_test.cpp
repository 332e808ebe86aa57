// The blocking thread pool of the worker's event loop, and recall that uses it.
#include "core/async/blocking_pool.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <future>
#include <thread>

#include "tests/search/corpus.h"
#include "tests/support/error_of.h"
#include "tests/support/loop_thread.h"

using namespace freshet;
using namespace freshet::test;

namespace {

Task<void> deliver(Task<Result<int>> task, std::promise<Result<int>>& answer) {
  auto result = co_await task;
  answer.set_value(std::move(result));
}

// Starts `work` from the loop's thread; the future receives its result.
std::future<Result<int>> start(LoopThread& thread, BlockingPool& pool, std::promise<Result<int>>& answer,
                               std::function<Result<int>(std::size_t)> work) {
  thread.run_on_loop([&] {
    spawn(deliver(pool.run<int>(std::move(work)), answer), [](const std::exception_ptr&) {});
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
  void make_pool(std::size_t threads, std::size_t waiting) {
    pool = std::make_unique<BlockingPool>(thread.loop(), threads, waiting, "pool_busy");
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "work runs off the loop's thread and its coroutine resumes on it", "[pool]") {
  make_pool(1, 4);
  const auto loop_thread = thread.run_on_loop([] { return std::this_thread::get_id(); });
  std::thread::id worked;
  std::promise<std::thread::id> resumed;
  thread.run_on_loop([&] {
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

TEST_CASE_METHOD(Fixture, "calls beyond the queue limit fail at once", "[pool]") {
  make_pool(1, 1);
  std::promise<void> started;
  auto first = start(thread, *pool, answers[0], [&](std::size_t) -> Result<int> {
    started.set_value();
    opened.wait();
    return 1;
  });
  started.get_future().wait();
  auto second = start(thread, *pool, answers[1], [](std::size_t) -> Result<int> { return 2; });
  const auto third = start(thread, *pool, answers[2], [](std::size_t) -> Result<int> { return 3; }).get();
  REQUIRE_FALSE(third.has_value());
  CHECK(error_of(third).reason == "pool_busy");
  gate.set_value();
  CHECK(first.get().value() == 1);
  CHECK(second.get().value() == 2);
}

TEST_CASE_METHOD(Fixture, "work that has waited too long is not started", "[pool]") {
  make_pool(1, 4);
  std::promise<void> started;
  auto first = start(thread, *pool, answers[0], [&](std::size_t) -> Result<int> {
    started.set_value();
    opened.wait();
    return 1;
  });
  started.get_future().wait();
  std::atomic<bool> ran{false};
  thread.run_on_loop([&] {
    auto late = pool->run<int>(
        [&](std::size_t) -> Result<int> {
          ran = true;
          return 2;
        },
        BlockingPool::Clock::now());
    spawn(deliver(std::move(late), answers[1]), [](const std::exception_ptr&) {});
    return 0;
  });
  gate.set_value();
  CHECK(first.get().value() == 1);
  const Result<int> second = answers[1].get_future().get();
  REQUIRE_FALSE(second.has_value());
  CHECK(error_of(second).reason == "pool_busy");
  CHECK_FALSE(ran);
}

TEST_CASE_METHOD(Fixture, "stopping waits for running work and fails queued work", "[pool]") {
  make_pool(1, 4);
  std::promise<void> started;
  auto first = start(thread, *pool, answers[0], [&](std::size_t) -> Result<int> {
    started.set_value();
    opened.wait();
    return 1;
  });
  started.get_future().wait();
  std::atomic<bool> ran{false};
  auto second = start(thread, *pool, answers[1], [&](std::size_t) -> Result<int> {
    ran = true;
    return 2;
  });
  std::thread opener([&] { gate.set_value(); });
  thread.run_on_loop([&] {
    pool->stop();
    return 0;
  });
  opener.join();
  CHECK(first.get().value() == 1);
  const Result<int> last = second.get();
  CHECK(last.has_value() == ran);  // the thread may have started it before the stop
  CHECK_FALSE(
      start(thread, *pool, answers[2], [](std::size_t) -> Result<int> { return 3; }).get().has_value());
}

TEST_CASE_METHOD(Fixture, "a pool may be destroyed with work in flight, and the result arrives afterwards",
                 "[pool]") {
  make_pool(2, 8);
  std::promise<void> started;
  auto answer = start(thread, *pool, answers[0], [&](std::size_t) -> Result<int> {
    started.set_value();
    opened.wait();
    return 1;
  });
  started.get_future().wait();
  thread.stop();  // the loop now belongs to this thread
  gate.set_value();
  pool.reset();
  thread.loop().run();  // one iteration, since it is stopped
  REQUIRE(answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  CHECK(answer.get().value() == 1);
}

TEST_CASE_METHOD(Fixture, "pool threads block signals", "[pool]") {
  make_pool(1, 4);
  const auto mask = start(thread, *pool, answers[0], [](std::size_t) -> Result<int> {
                      sigset_t blocked;
                      pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
                      return sigismember(&blocked, SIGTERM) + sigismember(&blocked, SIGHUP);
                    }).get();
  CHECK(mask.value() == 2);
}

TEST_CASE("a reader has at most one text search at a time, and other searches never wait for it",
          "[search]") {
  const TemporaryFolder folder;
  Settings settings;
  settings.search.index = folder / "index";
  settings.recall.budget = milliseconds(60000);
  std::string text;
  for (int i = 0; i < 300; ++i) text += "b filler a ";
  std::vector<items::Item> items;
  for (int i = 0; i < 20000; ++i) {
    items.push_back(item("i" + std::to_string(i), "whale", kNow - seconds{i * 60}));
    items.back().text = text;
  }
  write_index(settings, items);
  LoopThread thread;
  auto recall =
      thread.run_on_loop([&] { return std::make_unique<feed::PooledRecall>(settings, thread.loop()); });
  const auto cost = std::make_shared<std::chrono::microseconds>();
  const auto search_for = [&](const std::string& words, const std::string& reader,
                              std::promise<Result<feed::RecallResult>>& to) {
    thread.run_on_loop([&] {
      spawn(
          [](Task<Result<feed::RecallResult>> task,
             std::promise<Result<feed::RecallResult>>& promise) -> Task<void> {
            auto result = co_await task;
            promise.set_value(std::move(result));
          }(recall->search({.text = words,
                                                                .now = kNow,
                                                                .size = 10,
                                                                .reader = ReaderId::trusted(reader),
                                                                .cost = cost}),
                                                                to),
          [](const std::exception_ptr&) {});
      return 0;
    });
    return to.get_future();
  };
  std::promise<Result<feed::RecallResult>> long_one, again, newest, after;
  auto slow = search_for("\"b a\"", "ann", long_one);
  const Result<feed::RecallResult> second = search_for("whale", "ann", again).get();
  REQUIRE_FALSE(second.has_value());
  CHECK(error_of(second).reason == "search_busy");
  CHECK(search_for("", "ann", newest).get().value().candidates.size() == 10);
  CHECK(slow.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);  // still searching
  const Result<feed::RecallResult> found = slow.get();
  REQUIRE(found.has_value());
  CHECK(*cost > std::chrono::milliseconds(1));
  CHECK(search_for("whale", "ann", after).get().has_value());
  thread.run_on_loop([&] {
    recall.reset();
    return 0;
  });
}

TEST_CASE("pooled recall finds indexed items", "[search]") {
  const TemporaryFolder folder;
  Settings settings;
  settings.search.index = folder / "index";
  write_index(settings, {item("a", "whale")});
  LoopThread thread;
  auto recall =
      thread.run_on_loop([&] { return std::make_unique<feed::PooledRecall>(settings, thread.loop()); });
  std::promise<Result<feed::RecallResult>> answer;
  thread.run_on_loop([&] {
    spawn(
        [](Task<Result<feed::RecallResult>> task,
           std::promise<Result<feed::RecallResult>>& to) -> Task<void> {
          auto result = co_await task;
          to.set_value(std::move(result));
        }(recall->search({"whale", {}, kNow, 10}), answer),
        [](const std::exception_ptr&) {});
    return 0;
  });
  CHECK(ids(answer.get_future().get().value()) == std::vector<std::string>{"a"});
  thread.run_on_loop([&] {
    recall.reset();
    return 0;
  });
}
