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

Task<void> deliver(Task<Result<int>> task, std::promise<Result<int>>& answer) {
  auto result = co_await task;
  answer.set_value(std::move(result));
}

// Starts `work` on the loop's thread; the future has its result.
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

TEST_CASE_METHOD(Fixture, "work runs off the loop's thread and its coroutine goes on there", "[pool]") {
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

TEST_CASE_METHOD(Fixture, "calls beyond the queue fail at once", "[pool]") {
  make_pool(1, 1);
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

TEST_CASE_METHOD(Fixture, "what has waited for too long is not begun", "[pool]") {
  make_pool(1, 4);
  std::promise<void> begun;
  auto first = start(thread, *pool, answers[0], [&](std::size_t) -> Result<int> {
    begun.set_value();
    opened.wait();
    return 1;
  });
  begun.get_future().wait();
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
  CHECK(second.error().reason == "pool_busy");
  CHECK_FALSE(ran);
}

TEST_CASE_METHOD(Fixture, "a stop waits for what has begun and fails what has not", "[pool]") {
  make_pool(1, 4);
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
  thread.run_on_loop([&] {
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
  make_pool(2, 8);
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
  thread.loop().run();  // a turn: it is stopped
  REQUIRE(answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready);
  CHECK(answer.get().value() == 1);
}

TEST_CASE_METHOD(Fixture, "threads of the pool take no signal", "[pool]") {
  make_pool(1, 4);
  const auto mask = start(thread, *pool, answers[0], [](std::size_t) -> Result<int> {
                      sigset_t blocked;
                      pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
                      return sigismember(&blocked, SIGTERM) + sigismember(&blocked, SIGHUP);
                    }).get();
  CHECK(mask.value() == 2);
}

TEST_CASE("whoever types has one search at a time, and those who do not type never wait for it", "[search]") {
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
  auto recall = thread.run_on_loop([&] { return std::make_unique<feed::PooledRecall>(settings, thread.loop()); });
  const auto cost = std::make_shared<std::chrono::microseconds>();
  const auto ask = [&](const std::string& words, const std::string& reader,
                       std::promise<Result<feed::RecallResult>>& to) {
    thread.run_on_loop([&] {
      spawn(
          [](Task<Result<feed::RecallResult>> task, std::promise<Result<feed::RecallResult>>& its) -> Task<void> {
            auto result = co_await task;
            its.set_value(std::move(result));
          }(recall->search({words, {}, kNow, 10, ReaderId::trusted(reader), cost}), to),
          [](const std::exception_ptr&) {});
      return 0;
    });
    return to.get_future();
  };
  std::promise<Result<feed::RecallResult>> long_one, again, newest, after;
  auto slow = ask("\"b a\"", "ann", long_one);
  const Result<feed::RecallResult> second = ask("whale", "ann", again).get();
  REQUIRE_FALSE(second.has_value());
  CHECK(second.error().reason == "search_busy");
  CHECK(ask("", "ann", newest).get().value().candidates.size() == 10);
  CHECK(slow.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);  // it still searches
  const Result<feed::RecallResult> found = slow.get();
  REQUIRE(found.has_value());
  CHECK(*cost > std::chrono::milliseconds(1));
  CHECK(ask("whale", "ann", after).get().has_value());
  thread.run_on_loop([&] {
    recall.reset();
    return 0;
  });
}

TEST_CASE("pooled recall finds what was written", "[search]") {
  const TemporaryFolder folder;
  Settings settings;
  settings.search.index = folder / "index";
  write_index(settings, {item("a", "whale")});
  LoopThread thread;
  auto recall = thread.run_on_loop([&] { return std::make_unique<feed::PooledRecall>(settings, thread.loop()); });
  std::promise<Result<feed::RecallResult>> answer;
  thread.run_on_loop([&] {
    spawn(
        [](Task<Result<feed::RecallResult>> task, std::promise<Result<feed::RecallResult>>& to) -> Task<void> {
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
