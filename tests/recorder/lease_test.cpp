// At most one recorder of one database is active.
#include "core/recorder/lease.h"

#include <chrono>
#include <csignal>

#include "tests/recorder/fixture.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct LeaseFixture : Fixture {
  void put_some(const std::string& what, int count = 30) {
    std::vector<items::Item> many;
    for (int i = 0; i < count; ++i)
      many.push_back(item("i" + std::to_string(i), what + " " + std::to_string(i)));
    put_many(many);
  }
  std::int64_t token() { return command("HGET", keys().recorder_lease(), "token").integer().value_or(0); }
  std::string owner() { return recorder::read_lease_owner(redis, keys())->database; }
  std::string identity(const Settings& of) {
    const auto database = database::Database::open(of.recorder.database, database::Database::Mode::kRead);
    REQUIRE(database);
    return (*database)->database_id();
  }
};

// A second recorder on the same Redis, by default with its own database.
struct Rival : RecorderHarness {
  Rival(LeaseFixture& first, bool shares_database) : RecorderHarness(first.endpoint) {
    settings = first.settings;
    lease = first.lease;
    if (shares_database) return;
    settings.recorder.database += ".rival";
    settings.search.index += ".rival";
  }
  bool runs() {
    return eventually([&] { return shared->report.state.load() == RecorderState::kRunning; });
  }
};

}  // namespace

TEST_CASE_METHOD(LeaseFixture, "a recorder with another database is refused, even while the lease is free",
                 "[recorder]") {
  start();
  put_some("First");
  REQUIRE(becomes_idle());
  Rival rival(*this, false);
  rival.start();
  REQUIRE(rival.waits_for(RecorderPauseReason::kDatabaseMismatch));
  put_some("Second", 200);
  REQUIRE(becomes_idle());
  check_all();
  stop();
  put(item("late", "While no recorder runs"));
  rival.stop();
  rival.start();
  REQUIRE(rival.waits_for(RecorderPauseReason::kDatabaseMismatch));
  CHECK(backlog() == 1);
  CHECK(rival.shared->report.entries.load() == 0);
  CHECK(owner() == identity(settings));
  start();
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(LeaseFixture, "renewing the lease writes only after a third of its lifetime", "[recorder]") {
  recorder::Lease mine(keys(), seconds(3000));
  REQUIRE(mine.acquire(redis, "a database", 0));
  const auto till = [&] {
    return redis::parse_or_zero<std::int64_t>(
        std::string(command("HGET", keys().recorder_lease(), "till").string().value_or("")));
  };
  const auto ends_in = [&](seconds left) {
    const auto now = redis::parse_time(command("TIME"));
    REQUIRE(now);
    command("HSET", keys().recorder_lease(), "till", (*now + left).count() / 1000);
    return till();
  };
  const auto taken = till();
  REQUIRE(mine.renew(redis));
  CHECK(till() == taken);
  const auto kept = ends_in(seconds(2100));
  REQUIRE(mine.renew(redis));
  CHECK(till() == kept);
  const auto short_of_it = ends_in(seconds(1900));
  REQUIRE(mine.renew(redis));
  CHECK(till() > short_of_it + 1'000'000);
  const auto too_late = ends_in(seconds(4000));  // Redis' clock was set back
  REQUIRE(mine.renew(redis));
  CHECK(till() < too_late);
  mine.release(redis);
  CHECK_FALSE(recorder::read_lease_owner(redis, keys())->is_active);
}

TEST_CASE_METHOD(LeaseFixture, "a recorder of the same database waits until the lease is released",
                 "[recorder]") {
  lease = seconds(600);
  start();
  put_some("First");
  REQUIRE(becomes_idle());
  Rival rival(*this, true);
  rival.start();
  REQUIRE(rival.waits_for(RecorderPauseReason::kLeaseHeld));
  stop();
  REQUIRE(rival.runs());
  put_some("Second");
  REQUIRE(eventually([&] { return rival.shared->report.entries.load() == 30; }));
  check_all();
}

TEST_CASE_METHOD(LeaseFixture, "the active recorder and a refusal are reported with host and pid",
                 "[recorder]") {
  start();
  REQUIRE(becomes_idle());
  const auto holder = recorder::read_lease_owner(redis, keys());
  REQUIRE(holder);
  CHECK(holder->is_active);
  CHECK(holder->name.ends_with(", pid " + std::to_string(getpid())));
  recorder::Lease other(keys());
  const auto refused = other.acquire(redis, "another", 0);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "database_mismatch");
  CHECK(error_of(refused).detail.find(holder->name) != std::string::npos);
  const auto waits = recorder::Lease(keys()).acquire(redis, holder->database, 0);
  REQUIRE_FALSE(waits);
  CHECK(error_of(waits).reason == "lease_held");
  CHECK(error_of(waits).detail.find(holder->name) != std::string::npos);
  stop();
  CHECK_FALSE(recorder::read_lease_owner(redis, keys())->is_active);
}

// A zombie still has a pid, so only the lease shows that it stopped recording, as on another host.
TEST_CASE_METHOD(LeaseFixture, "a crashed recorder is replaced within its lease plus a second, without loss",
                 "[recorder]") {
  settings.recorder.batch_size = 5;
  start_process();
  put_some("First", 200);
  REQUIRE(eventually([&] { return shared->report.entries.load() > 0; }));
  Rival rival(*this, true);
  rival.start();
  REQUIRE(rival.waits_for(RecorderPauseReason::kLeaseHeld));
  put_some("Second", 200);
  ::kill(child, SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  REQUIRE(rival.runs());
  const auto took = std::chrono::steady_clock::now() - killed;
  CHECK(took <= recorder::kLeaseTtl + seconds(1));
  REQUIRE(eventually([&] { return backlog() == 0; }));
  check_all();
  // An entry is counted only after Redis has answered; the first recorder may have been killed
  // before that.
  CHECK(shared->report.entries.load() + rival.shared->report.entries.load() <= 400);
}

TEST_CASE_METHOD(LeaseFixture, "a dead recorder of this machine is replaced immediately", "[recorder]") {
  lease = seconds(600);
  start_process();
  put_some("First");
  REQUIRE(becomes_idle());
  kill_process();
  start();
  put_some("Second");
  REQUIRE(becomes_idle());
  check_all();
}

// The recorder is stopped between reading and writing. (With a shared index it would keep the
// lock.)
TEST_CASE_METHOD(LeaseFixture, "a recorder that wakes up after a takeover writes and acknowledges nothing",
                 "[recorder]") {
  use_partitions(GENERATE(1, 16));
  lease = milliseconds(300);
  start_process();
  REQUIRE(becomes_idle());
  SqliteShell shell(settings.recorder.database);
  shell.run("BEGIN IMMEDIATE");
  put_some("Old");
  REQUIRE(eventually([&] { return pending() > 0; }));
  ::kill(child, SIGSTOP);
  REQUIRE(waitpid(child, nullptr, WUNTRACED) == child);
  shell.run("ROLLBACK");
  settings.search.index += ".rival";
  Rival rival(*this, true);
  rival.start();
  REQUIRE(eventually([&] { return rival.shared->report.entries.load() == 30; }));
  put_some("New");
  REQUIRE(eventually([&] { return rival.shared->report.entries.load() == 60; }));
  const auto before = shared->report.entries.load();
  ::kill(child, SIGCONT);
  REQUIRE(waits_for(RecorderPauseReason::kLeaseHeld));
  CHECK(shared->report.entries.load() == before);
  check_all();
}

TEST_CASE_METHOD(LeaseFixture, "acknowledging with an older token is refused", "[recorder]") {
  recorder::Lease first(keys(), milliseconds(0)), second(keys());
  REQUIRE(recorder::create_groups(redis, keys()));
  REQUIRE(first.acquire(redis, "d", 0));
  REQUIRE(second.acquire(redis, "d", 0));
  CHECK(second.token() == first.token() + 1);
  put(item("a", "A"));
  recorder::Streams stream(settings, endpoint);
  REQUIRE(stream.claim_pending());
  const auto batch = stream.read();
  REQUIRE(batch);
  const auto refused = stream.acknowledge(first, *batch);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "lease_lost");
  CHECK(pending() == 1);
  REQUIRE(stream.acknowledge(second, *batch));
  CHECK(backlog() == 0);
}

TEST_CASE_METHOD(LeaseFixture, "a Redis reset to an older token does not issue a token twice", "[recorder]") {
  start();
  for (int i = 0; i < 5; ++i) {  // a new token each time
    stop();
    start();
    put_some("Turn " + std::to_string(i));
    REQUIRE(becomes_idle());
  }
  const auto before = token();
  CHECK(before > 3);
  command("HSET", keys().recorder_lease(), "token", 2, "till", 0, "holder", "another", "process", "");
  REQUIRE(eventually([&] { return token() > before; }));
  put_some("After");
  REQUIRE(becomes_idle());
  check_all();
  CHECK(SqliteShell(settings.recorder.database).run("SELECT value FROM meta WHERE name = 'token'") ==
        std::to_string(token()));
}

TEST_CASE_METHOD(LeaseFixture, "an emptied Redis does not accept a database that it refused before",
                 "[recorder]") {
  start();
  put_some("First");
  REQUIRE(becomes_idle());
  Rival rival(*this, false);
  rival.start();
  REQUIRE(rival.waits_for(RecorderPauseReason::kDatabaseMismatch));
  stop();
  server.flush_all();
  command("CONFIG", "RESETSTAT");
  REQUIRE(eventually([&] {  // it has tried several times since
    const redis::Reply stats = command("INFO", "commandstats");
    const std::string_view text = stats.string().value_or("");
    constexpr std::string_view kCalls = "cmdstat_evalsha:calls=";
    const std::size_t at = std::min(text.find(kCalls), text.size() - kCalls.size()) + kCalls.size();
    return redis::parse_or_zero<int>(text.substr(at, text.find(',', at) - at)) >= 6;
  }));
  CHECK(owner().empty());
  start();
  CHECK(eventually([&] { return owner() == identity(settings); }));
  REQUIRE(rival.waits_for(RecorderPauseReason::kDatabaseMismatch));
}

TEST_CASE_METHOD(LeaseFixture, "a database deleted during recording is replaced by a new one", "[recorder]") {
  start();
  put_some("First");
  REQUIRE(becomes_idle());
  const std::string before = owner();
  for (const char* const suffix : {"", "-wal", "-shm"})
    std::filesystem::remove(settings.recorder.database + suffix);
  put(item("after", "After"));
  REQUIRE(becomes_idle());
  CHECK(owner() != before);
  CHECK(owner() == identity(settings));
}
