#include "core/async/event_loop.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "core/async/signals.h"
#include "core/async/timer.h"

using namespace freshet;
using namespace std::chrono_literals;

namespace {

// A pipe whose read end is registered with the loop.
class Pipe final : public FdHandler {
 public:
  Pipe(EventLoop& loop, std::uint32_t events, std::function<void()> ready)
      : loop_(loop), ready_(std::move(ready)) {
    REQUIRE(pipe(ends_.data()) == 0);
    REQUIRE(loop_.add(ends_[0], events, *this));
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    unregister();
    close(ends_[0]);
    close(ends_[1]);
  }
  void fill() { REQUIRE(write(ends_[1], "x", 1) == 1); }
  void unregister() { loop_.remove(ends_[0], *this); }
  void on_ready(std::uint32_t) override { ready_(); }

 private:
  EventLoop& loop_;
  std::function<void()> ready_;
  std::array<int, 2> ends_{};
};

}  // namespace

TEST_CASE("Timers fire once, in the order of their times", "[loop]") {
  EventLoop loop;
  std::string fired;
  Timer late(loop), early(loop);
  late.after(20ms, [&] {
    fired += 'l';
    loop.stop();
  });
  early.after(1ms, [&] { fired += 'e'; });
  loop.run();
  CHECK(fired == "el");
  CHECK_FALSE(loop.next_timer_due());
}

TEST_CASE(
    "A timer's callback never runs after it was canceled, set again or destroyed, even if both "
    "timers were due in the same iteration",
    "[loop]") {
  EventLoop loop;
  std::string fired;
  const auto when = EventLoop::Clock::now();
  Timer first(loop), cancelled(loop), rearmed(loop), end(loop);
  auto destroyed = std::make_unique<Timer>(loop);
  first.at(when, [&] {
    cancelled.cancel();
    rearmed.after(1ms, [&] { fired += 'a'; });
    destroyed.reset();
  });
  cancelled.at(when, [&] { fired += 'c'; });
  rearmed.at(when, [&] { fired += 'w'; });
  destroyed->at(when, [&] { fired += 'g'; });
  end.after(20ms, [&] { loop.stop(); });
  loop.run();
  CHECK(fired == "a");
}

TEST_CASE("A timer can be set again by its own callback", "[loop]") {
  EventLoop loop;
  Timer timer(loop);
  int fired = 0;
  std::function<void()> again = [&] {
    if (++fired == 3) return loop.stop();
    timer.after(0ms, again);
  };
  timer.after(0ms, again);
  loop.run();
  CHECK(fired == 3);
}

TEST_CASE("A callback posted by another thread wakes an idle loop and runs on the loop's thread", "[loop]") {
  EventLoop loop;
  std::thread::id where;
  std::thread other([&] {
    loop.post([&] {
      where = std::this_thread::get_id();
      loop.stop();
    });
  });
  loop.run();
  other.join();
  CHECK(where == std::this_thread::get_id());
}

TEST_CASE("Another thread can stop an idle loop", "[loop]") {
  EventLoop loop;
  int turns = 0;
  std::thread other([&] { loop.stop(); });
  loop.run([&] { ++turns; });
  other.join();
  CHECK(turns > 0);
}

TEST_CASE("Timers and signals are served while a descriptor is always ready", "[loop]") {
  EventLoop loop;
  Pipe busy(loop, EPOLLIN, [] {});  // level-triggered, never read
  busy.fill();
  std::string received;
  Signals signals(loop, {SIGUSR1, SIGUSR2}, [&](int signal) {
    received += signal == SIGUSR1 ? '1' : '2';
    if (signal == SIGUSR2) loop.stop();
  });
  Timer timer(loop);
  timer.after(1ms, [&] {
    received += 't';
    raise(SIGUSR1);
  });
  Timer later(loop);
  later.after(5ms, [&] { raise(SIGUSR2); });
  loop.run();
  CHECK(received == "t12");
}

TEST_CASE("A signal that the process ignores is delivered", "[loop]") {
  std::signal(SIGUSR1, SIG_IGN);
  EventLoop loop;
  int received = 0;
  Signals signals(loop, {SIGUSR1}, [&](int signal) {
    received = signal;
    loop.stop();
  });
  raise(SIGUSR1);
  loop.run();
  std::signal(SIGUSR1, SIG_DFL);
  CHECK(received == SIGUSR1);
}

TEST_CASE("End-of-iteration actions run once in each iteration that requests them", "[loop]") {
  EventLoop loop;
  int actions = 0, turns = 0;
  loop.add_iteration_end_action([&] { ++actions; });
  loop.request_iteration_end_actions();
  Timer timer(loop);
  loop.run([&] {
    if (++turns > 1) return;
    timer.after(1ms, [&] {
      loop.request_iteration_end_actions();
      loop.request_iteration_end_actions();
      loop.stop();
    });
  });
  CHECK(actions == 2);
  CHECK(turns >= 2);
}

TEST_CASE("destroy_later destroys at the end of the iteration, and a removed handler gets no more events",
          "[loop]") {
  EventLoop loop;
  std::optional<Pipe> first, second;
  int calls = 0;
  const auto ready = [&] {
    ++calls;
    first->unregister();
    second->unregister();
    loop.stop();
  };
  first.emplace(loop, EPOLLIN, ready);
  second.emplace(loop, EPOLLIN, ready);
  first->fill();
  second->fill();
  auto object = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = object;
  loop.destroy_later(std::make_unique<std::shared_ptr<int>>(std::move(object)));
  CHECK_FALSE(seen.expired());
  loop.run();
  CHECK(calls == 1);
  CHECK(seen.expired());
}
