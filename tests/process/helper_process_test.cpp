#include "fcgi/process/helper_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

// Controls a helper process directly, with a simulated clock.
class Fixture {
 public:
  explicit Fixture(HelperMain main = run_forever)
      : helper_(board_.recorder(), {"freshetd-test", std::move(main), [this] { return progress_; },
                                    [] { return std::vector<int>(); }}) {
    settings_.pool.process_control_timeout = 30s;
  }
  ~Fixture() {
    if (pid() == 0) return;
    kill(pid(), SIGKILL);
    waitpid(pid(), nullptr, 0);
  }
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  static int run_forever(const Settings&) {
    while (true) pause();
  }
  pid_t pid() { return board_.recorder().pid; }
  // Kills the process and reports its death. Returns the time of the next start.
  SteadyTime kill_and_reap(SteadyTime now) {
    kill(pid(), SIGKILL);
    return reap(now);
  }
  SteadyTime reap(SteadyTime now) {
    const pid_t dead = pid();
    const int status = wait_for_exit(dead);
    CHECK(helper_.reap(dead, status, now));
    return helper_.next_deadline();
  }
  HelperProcess& helper() { return helper_; }
  Scoreboard& board() { return board_; }
  Settings& settings() { return settings_; }
  void make_progress() { ++progress_; }

 private:
  std::uint64_t progress_ = 0;
  Scoreboard board_{1};
  Settings settings_;
  HelperProcess helper_;
};

TEST_CASE("the restart delay grows while a helper process dies without progress", "[process]") {
  Fixture fixture;
  HelperProcess& helper = fixture.helper();
  SteadyTime now{};
  helper.set_desired(&fixture.settings(), now);
  for (const auto delay : {100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 5000ms, 5000ms}) {
    helper.tick(now);
    REQUIRE(fixture.pid() != 0);
    CHECK(fixture.kill_and_reap(now) == now + delay);
    helper.tick(now + delay - 1ms);
    CHECK(fixture.pid() == 0);
    now += delay;
  }
  CHECK(fixture.board().recorder().respawns == 8);
}

TEST_CASE("a helper process that made progress is restarted at once and its delays are reset", "[process]") {
  Fixture fixture;
  HelperProcess& helper = fixture.helper();
  const SteadyTime now{};
  helper.set_desired(&fixture.settings(), now);
  helper.tick(now);
  CHECK(fixture.kill_and_reap(now) == now + 100ms);
  helper.tick(now + 100ms);
  fixture.make_progress();
  CHECK(fixture.kill_and_reap(now + 1s) == now + 1s);
  helper.tick(now + 1s);
  CHECK(fixture.kill_and_reap(now + 2s) == now + 2s + 100ms);
}

TEST_CASE("without a progress counter, ten seconds of running count as progress", "[process]") {
  Scoreboard board(1);
  Settings settings;
  HelperProcess helper(board.status(),
                       {"freshetd-test", Fixture::run_forever, {}, [] { return std::vector<int>(); }});
  const auto die = [&](SteadyTime now) {
    const pid_t pid = board.status().pid;
    kill(pid, SIGKILL);
    CHECK(helper.reap(pid, wait_for_exit(pid), now));
    return helper.next_deadline();
  };
  SteadyTime now{};
  helper.set_desired(&settings, now);
  helper.tick(now);
  CHECK(die(now + 9s) == now + 9s + 100ms);
  now += 10s;
  helper.tick(now);
  CHECK(die(now + 10s) == now + 10s);
}

TEST_CASE("a helper process with new settings starts only after its predecessor has ended", "[process]") {
  Fixture fixture(
      [](const Settings& settings) { return settings.recorder.batch_size == 7 ? 7 : (pause(), 1); });
  HelperProcess& helper = fixture.helper();
  const SteadyTime now{};
  helper.set_desired(&fixture.settings(), now);
  helper.tick(now);
  const pid_t old = fixture.pid();
  // By then the test's own signal handlers are gone; a real master blocks its signals.
  REQUIRE(eventually([&] { return process_name(old) == "freshetd-test"; }));
  Settings next = fixture.settings();
  next.recorder.batch_size = 7;
  helper.set_desired(&next, now);
  helper.tick(now + 10s);
  CHECK(fixture.pid() == old);
  CHECK(fixture.reap(now + 11s) == now);  // TERM ended it, so there is no delay
  helper.tick(now + 11s);
  REQUIRE(fixture.pid() != 0);
  CHECK(fixture.pid() != old);
  CHECK(fixture.board().recorder().respawns == 0);
  CHECK(WEXITSTATUS(wait_for_exit(fixture.pid())) == 7);
  helper.reap(fixture.pid(), 7 << 8, now + 11s);
}

TEST_CASE("a helper process that ignores TERM is killed after process_control_timeout, not before",
          "[process]") {
  TempFolder folder;
  Fixture fixture([&](const Settings&) {
    signal(SIGTERM, SIG_IGN);
    std::filesystem::create_directory(folder / "deaf");
    while (true) pause();
    return 0;
  });
  HelperProcess& helper = fixture.helper();
  const SteadyTime now{};
  helper.set_desired(&fixture.settings(), now);
  helper.tick(now);
  REQUIRE(eventually([&] { return std::filesystem::exists(folder / "deaf"); }));
  helper.set_desired(nullptr, now);
  helper.set_desired(nullptr, now + 20s);  // a second request does not extend the timeout
  CHECK(helper.next_deadline() == now + 30s);
  helper.tick(now + 29s);
  CHECK(is_alive(fixture.pid()));
  helper.tick(now + 30s);
  CHECK(helper.next_deadline() == SteadyTime::max());
  CHECK(fixture.reap(now + 30s) == SteadyTime::max());
  helper.tick(now + 100s);
  CHECK_FALSE(helper.is_running());
}

TEST_CASE("a role without a main function is never started, and other children are not claimed",
          "[process]") {
  Fixture idle_fixture{HelperMain()};
  idle_fixture.helper().set_desired(&idle_fixture.settings(), SteadyTime{});
  idle_fixture.helper().tick(SteadyTime{});
  CHECK(idle_fixture.pid() == 0);
  CHECK_FALSE(idle_fixture.board().recorder().enabled);
  CHECK(idle_fixture.helper().next_deadline() == SteadyTime::max());
  CHECK_FALSE(idle_fixture.helper().reap(1, 0, SteadyTime{}));
}

}  // namespace
}  // namespace freshet::testing
