#include "fcgi/process/helper_process.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

// A companion in this very process, with a clock of the test's own.
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
  // Kills it and tells the companion; the moment of the next start.
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

TEST_CASE("a companion that dies without progress is started again later each time", "[process]") {
  Fixture fixture;
  HelperProcess& companion = fixture.helper();
  SteadyTime now{};
  companion.set_desired(&fixture.settings(), now);
  for (const auto delay : {100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 5000ms, 5000ms}) {
    companion.tick(now);
    REQUIRE(fixture.pid() != 0);
    CHECK(fixture.kill_and_reap(now) == now + delay);
    companion.tick(now + delay - 1ms);
    CHECK(fixture.pid() == 0);
    now += delay;
  }
  CHECK(fixture.board().recorder().respawns == 8);
}

TEST_CASE("a companion that got on since its start is started at once, and its delays begin anew",
          "[process]") {
  Fixture fixture;
  HelperProcess& companion = fixture.helper();
  const SteadyTime now{};
  companion.set_desired(&fixture.settings(), now);
  companion.tick(now);
  CHECK(fixture.kill_and_reap(now) == now + 100ms);
  companion.tick(now + 100ms);
  fixture.make_progress();
  CHECK(fixture.kill_and_reap(now + 1s) == now + 1s);
  companion.tick(now + 1s);
  CHECK(fixture.kill_and_reap(now + 2s) == now + 2s + 100ms);
}

TEST_CASE("a companion that counts no progress is started at once after ten seconds of life", "[process]") {
  Scoreboard board(1);
  Settings settings;
  HelperProcess companion(board.status(), {"freshetd-test", Fixture::run_forever, {}, [] {
                                         return std::vector<int>();
                                       }});
  const auto die = [&](SteadyTime now) {
    const pid_t pid = board.status().pid;
    kill(pid, SIGKILL);
    CHECK(companion.reap(pid, wait_for_exit(pid), now));
    return companion.next_deadline();
  };
  SteadyTime now{};
  companion.set_desired(&settings, now);
  companion.tick(now);
  CHECK(die(now + 9s) == now + 9s + 100ms);
  now += 10s;
  companion.tick(now);
  CHECK(die(now + 10s) == now + 10s);
}

TEST_CASE("a companion with new settings starts only when the one before has ended", "[process]") {
  Fixture fixture([](const Settings& settings) { return settings.recorder.batch_size == 7 ? 7 : (pause(), 1); });
  HelperProcess& companion = fixture.helper();
  const SteadyTime now{};
  companion.set_desired(&fixture.settings(), now);
  companion.tick(now);
  const pid_t old = fixture.pid();
  // The test's own handlers are gone by then; a real master blocks its signals.
  REQUIRE(eventually([&] { return process_name(old) == "freshetd-test"; }));
  Settings next = fixture.settings();
  next.recorder.batch_size = 7;
  companion.set_desired(&next, now);
  companion.tick(now + 10s);
  CHECK(fixture.pid() == old);
  CHECK(fixture.reap(now + 11s) == now);  // TERM ended it; no delay
  companion.tick(now + 11s);
  REQUIRE(fixture.pid() != 0);
  CHECK(fixture.pid() != old);
  CHECK(fixture.board().recorder().respawns == 0);
  CHECK(WEXITSTATUS(wait_for_exit(fixture.pid())) == 7);
  companion.reap(fixture.pid(), 7 << 8, now + 11s);
}

TEST_CASE("a companion that does not end when asked is killed after process_control_timeout, not before",
          "[process]") {
  TempFolder folder;
  Fixture fixture([&](const Settings&) {
    signal(SIGTERM, SIG_IGN);
    std::filesystem::create_directory(folder / "deaf");
    while (true) pause();
    return 0;
  });
  HelperProcess& companion = fixture.helper();
  const SteadyTime now{};
  companion.set_desired(&fixture.settings(), now);
  companion.tick(now);
  REQUIRE(eventually([&] { return std::filesystem::exists(folder / "deaf"); }));
  companion.set_desired(nullptr, now);
  companion.set_desired(nullptr, now + 20s);  // asked again: the time does not begin anew
  CHECK(companion.next_deadline() == now + 30s);
  companion.tick(now + 29s);
  CHECK(is_alive(fixture.pid()));
  companion.tick(now + 30s);
  CHECK(companion.next_deadline() == SteadyTime::max());
  CHECK(fixture.reap(now + 30s) == SteadyTime::max());
  companion.tick(now + 100s);
  CHECK_FALSE(companion.is_running());
}

TEST_CASE("a role without a main is never started, and other children are not the companion's", "[process]") {
  Fixture none{HelperMain()};
  none.helper().set_desired(&none.settings(), SteadyTime{});
  none.helper().tick(SteadyTime{});
  CHECK(none.pid() == 0);
  CHECK_FALSE(none.board().recorder().enabled);
  CHECK(none.helper().next_deadline() == SteadyTime::max());
  CHECK_FALSE(none.helper().reap(1, 0, SteadyTime{}));
}

}  // namespace
}  // namespace freshet::testing
