#include "core/async/task.h"

#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>
#include <string>

using freshet::AsyncEvent;
using freshet::spawn;
using freshet::Task;

namespace {

Task<int> answer() { co_return 42; }

Task<int> depth(int n) {
  if (n == 0) co_return 0;
  const int below = co_await depth(n - 1);
  co_return below + 1;
}

Task<std::unique_ptr<std::string>> moved(std::string text) {
  co_return std::make_unique<std::string>(std::move(text));
}

Task<int> thrower() {
  throw std::runtime_error("thrown");
  co_return 0;
}

}  // namespace

TEST_CASE("A task returns its value to the awaiting coroutine", "[task]") {
  int got = 0;
  std::string text;
  spawn(
      [](int& number, std::string& words) -> Task<void> {
        number = co_await answer();
        words = *co_await moved("a longer text than fits the small buffer");
      }(got, text),
      [](std::exception_ptr thrown) { CHECK_FALSE(thrown); });
  CHECK(got == 42);
  CHECK(text == "a longer text than fits the small buffer");
}

TEST_CASE("A chain of a thousand tasks completes", "[task]") {
  int got = 0;
  spawn([](int& n) -> Task<void> { n = co_await depth(1000); }(got), [](std::exception_ptr) {});
  CHECK(got == 1000);
}

TEST_CASE("An exception propagates to the awaiting task and to spawn's callback", "[task]") {
  bool caught_inside = false;
  spawn(
      [](bool& caught) -> Task<void> {
        try {
          co_await thrower();
        } catch (const std::runtime_error&) {
          caught = true;
        }
        co_await thrower();
      }(caught_inside),
      [](std::exception_ptr thrown) { CHECK_THROWS_AS(std::rethrow_exception(thrown), std::runtime_error); });
  CHECK(caught_inside);
}

TEST_CASE("An event resumes its waiter with the value, whether fired before or after the wait", "[task]") {
  AsyncEvent<int> event;
  int got = 0;
  const auto waiter = [](AsyncEvent<int>& e, int& n) -> Task<void> { n = co_await e.wait(); };
  spawn(waiter(event, got), [](std::exception_ptr) {});
  CHECK(got == 0);
  event.fire(7);
  CHECK(got == 7);
  event.fire(8);
  spawn(waiter(event, got), [](std::exception_ptr) {});
  CHECK(got == 8);
}
