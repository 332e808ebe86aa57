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

// A pipe whose reading end is watched.
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
    forget();
    close(ends_[0]);
    close(ends_[1]);
  }
  void fill() { REQUIRE(write(ends_[1], "x", 1) == 1); }
  void forget() { loop_.remove(ends_[0], *this); }
  void on_ready(std::uint32_t) override { ready_(); }

 private:
  EventLoop& loop_;
  std::function<void()> ready_;
  std::array<int, 2> ends_{};
};

}  // namespace

TEST_CASE("Timers fire in the order of their times, once", "[loop]") {
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
    "A timer forgets what it was to do when it is cancelled, set anew or destroyed, also in the turn "
    "in which both were due",
    "[loop]") {
  EventLoop loop;
  std::string fired;
  const auto when = EventLoop::Clock::now();
  Timer first(loop), cancelled(loop), anew(loop), end(loop);
  auto gone = std::make_unique<Timer>(loop);
  first.at(when, [&] {
    cancelled.cancel();
    anew.after(1ms, [&] { fired += 'a'; });
    gone.reset();
  });
  cancelled.at(when, [&] { fired += 'c'; });
  anew.at(when, [&] { fired += 'w'; });
  gone->at(when, [&] { fired += 'g'; });
  end.after(20ms, [&] { loop.stop(); });
  loop.run();
  CHECK(fired == "a");
}

TEST_CASE("A timer may be set again by its own function", "[loop]") {
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

TEST_CASE("What another thread posts wakes a loop that waits for nothing, on the loop's thread", "[loop]") {
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

TEST_CASE("Another thread stops a loop that waits for nothing", "[loop]") {
  EventLoop loop;
  int turns = 0;
  std::thread other([&] { loop.stop(); });
  loop.run([&] { ++turns; });
  other.join();
  CHECK(turns > 0);
}

TEST_CASE("Timers and signals have their turn while a descriptor is ready in every one", "[loop]") {
  EventLoop loop;
  Pipe busy(loop, EPOLLIN, [] {});  // level-triggered, never read
  busy.fill();
  std::string came;
  Signals signals(loop, {SIGUSR1, SIGUSR2}, [&](int signal) {
    came += signal == SIGUSR1 ? '1' : '2';
    if (signal == SIGUSR2) loop.stop();
  });
  Timer timer(loop);
  timer.after(1ms, [&] {
    came += 't';
    raise(SIGUSR1);
  });
  Timer later(loop);
  later.after(5ms, [&] { raise(SIGUSR2); });
  loop.run();
  CHECK(came == "t12");
}

TEST_CASE("A signal that the process ignores comes all the same", "[loop]") {
  std::signal(SIGUSR1, SIG_IGN);
  EventLoop loop;
  int came = 0;
  Signals signals(loop, {SIGUSR1}, [&](int signal) {
    came = signal;
    loop.stop();
  });
  raise(SIGUSR1);
  loop.run();
  std::signal(SIGUSR1, SIG_DFL);
  CHECK(came == SIGUSR1);
}

TEST_CASE("The actions at the end of a turn run once a turn in which they were asked for", "[loop]") {
  EventLoop loop;
  int actions = 0, turns = 0;
  loop.add_iteration_end_action([&] { ++actions; });
  loop.request_iteration_end_actions();
  Timer timer(loop);
  timer.after(1ms, [&] {
    loop.request_iteration_end_actions();
    loop.request_iteration_end_actions();
    loop.stop();
  });
  loop.run([&] { ++turns; });
  CHECK(actions == 2);
  CHECK(turns >= 2);
}

TEST_CASE("What is disposed of is destroyed when the turn ends, and what was removed hears no more",
          "[loop]") {
  EventLoop loop;
  std::optional<Pipe> first, second;
  int heard = 0;
  const auto ready = [&] {
    ++heard;
    first->forget();
    second->forget();
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
  CHECK(heard == 1);
  CHECK(seen.expired());
}
