// One recorder of one database, however many run.
#include "core/recorder/lease.h"

#include <chrono>
#include <csignal>

#include "tests/recorder/fixture.h"
#include "tests/recorder/sqlite_shell.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct Leased : Fixture {
  void put_some(const std::string& what, int count = 30) {
    std::vector<items::Item> many;
    for (int i = 0; i < count; ++i)
      many.push_back(item("i" + std::to_string(i), what + " " + std::to_string(i)));
    put_many(many);
  }
  std::int64_t token() { return command("HGET", keys().recorder_lease(), "token").integer().value_or(0); }
  std::string owner() { return recorder::holder_of(redis, keys())->database; }
  std::string identity(const Settings& of) {
    const auto database = database::Database::open(of.recorder.database, database::Database::Mode::kRead);
    REQUIRE(database);
    return (*database)->database_id();
  }
};

// Another recorder on the same Redis, with a database of its own unless it shares the first one's.
struct Rival : Recording {
  Rival(Leased& first, bool shares_database) : Recording(first.endpoint) {
    settings = first.settings;
    lease = first.lease;
    if (shares_database) return;
    settings.recorder.database += ".rival";
    settings.search.index += ".rival";
  }
  bool runs() {
    return comes([&] { return shared->report.state.load() == RecorderState::kRunning; });
  }
};

}  // namespace

TEST_CASE_METHOD(Leased, "a recorder with another database is refused, also while nobody records",
                 "[recorder]") {
  run();
  put_some("First");
  REQUIRE(settles());
  Rival rival(*this, false);
  rival.run();
  REQUIRE(rival.waits_for(RecorderPauseReason::kDatabaseMismatch));
  put_some("Second", 200);
  REQUIRE(settles());
  check_all();
  stop();
  put(item("late", "While nobody records"));
  rival.stop();
  rival.run();
  REQUIRE(rival.waits_for(RecorderPauseReason::kDatabaseMismatch));
  CHECK(backlog() == 1);
  CHECK(rival.shared->report.entries.load() == 0);
  CHECK(owner() == identity(settings));
  run();
  REQUIRE(settles());
  check_all();
}

TEST_CASE_METHOD(Leased, "a lease is written when a third of it has gone, not each time it is renewed",
                 "[recorder]") {
  recorder::Lease mine(keys(), seconds(3000));
  REQUIRE(mine.take(redis, "a database", 0));
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
  const auto too_late = ends_in(seconds(4000));  // the clock of Redis was set back
  REQUIRE(mine.renew(redis));
  CHECK(till() < too_late);
  mine.give_back(redis);
  CHECK_FALSE(recorder::holder_of(redis, keys())->holds);
}

TEST_CASE_METHOD(Leased, "a recorder of the same database waits until the lease is given back",
                 "[recorder]") {
  lease = seconds(600);
  run();
  put_some("First");
  REQUIRE(settles());
  Rival rival(*this, true);
  rival.run();
  REQUIRE(rival.waits_for(RecorderPauseReason::kLeaseHeld));
  stop();
  REQUIRE(rival.runs());
  put_some("Second");
  REQUIRE(comes([&] { return rival.shared->report.entries.load() == 30; }));
  check_all();
}

TEST_CASE_METHOD(Leased, "who records and who is refused is told with host and pid", "[recorder]") {
  run();
  REQUIRE(settles());
  const auto holder = recorder::holder_of(redis, keys());
  REQUIRE(holder);
  CHECK(holder->holds);
  CHECK(holder->who.ends_with(", pid " + std::to_string(getpid())));
  recorder::Lease other(keys());
  const auto refused = other.take(redis, "another", 0);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == "other_database");
  CHECK(refused.error().detail.find(holder->who) != std::string::npos);
  const auto waits = recorder::Lease(keys()).take(redis, holder->database, 0);
  REQUIRE_FALSE(waits);
  CHECK(waits.error().reason == "other_recorder");
  CHECK(waits.error().detail.find(holder->who) != std::string::npos);
  stop();
  CHECK_FALSE(recorder::holder_of(redis, keys())->holds);
}

// A zombie has a pid, so only the lease tells that it records no more, as from another host.
TEST_CASE_METHOD(Leased, "a crashed recorder is followed within its lease and a second; nothing is lost",
                 "[recorder]") {
  settings.recorder.batch_size = 5;
  run_process();
  put_some("First", 200);
  REQUIRE(comes([&] { return shared->report.entries.load() > 0; }));
  Rival rival(*this, true);
  rival.run();
  REQUIRE(rival.waits_for(RecorderPauseReason::kLeaseHeld));
  put_some("Second", 200);
  ::kill(child, SIGKILL);
  const auto killed = std::chrono::steady_clock::now();
  REQUIRE(rival.runs());
  const auto took = std::chrono::steady_clock::now() - killed;
  CHECK(took <= recorder::kLease + seconds(1));
  REQUIRE(comes([&] { return backlog() == 0; }));
  check_all();
  // Each counts when Redis has answered; the first may have been killed before.
  CHECK(shared->report.entries.load() + rival.shared->report.entries.load() <= 400);
}

TEST_CASE_METHOD(Leased, "a dead recorder of this machine is followed at once", "[recorder]") {
  lease = seconds(600);
  run_process();
  put_some("First");
  REQUIRE(settles());
  kill_process();
  run();
  put_some("Second");
  REQUIRE(settles());
  check_all();
}

// It has read what it shall write, and sleeps before it can. (Of one index it would keep the lock.)
TEST_CASE_METHOD(Leased, "a recorder that wakes after another took over writes and acknowledges nothing",
                 "[recorder]") {
  with_groups(GENERATE(1, 16));
  lease = milliseconds(300);
  run_process();
  REQUIRE(settles());
  SqliteShell shell(settings.recorder.database);
  shell.run("BEGIN IMMEDIATE");
  put_some("Old");
  REQUIRE(comes([&] { return pending() > 0; }));
  ::kill(child, SIGSTOP);
  REQUIRE(waitpid(child, nullptr, WUNTRACED) == child);
  shell.run("ROLLBACK");
  settings.search.index += ".rival";
  Rival rival(*this, true);
  rival.run();
  REQUIRE(comes([&] { return rival.shared->report.entries.load() == 30; }));
  put_some("New");
  REQUIRE(comes([&] { return rival.shared->report.entries.load() == 60; }));
  const auto before = shared->report.entries.load();
  ::kill(child, SIGCONT);
  REQUIRE(waits_for(RecorderPauseReason::kLeaseHeld));
  CHECK(shared->report.entries.load() == before);
  check_all();
}

TEST_CASE_METHOD(Leased, "what was acknowledged under an older token is refused", "[recorder]") {
  recorder::Lease first(keys(), milliseconds(0)), second(keys());
  REQUIRE(recorder::make_groups(redis, keys()));
  REQUIRE(first.take(redis, "d", 0));
  REQUIRE(second.take(redis, "d", 0));
  CHECK(second.token() == first.token() + 1);
  put(item("a", "A"));
  recorder::Streams stream(settings, endpoint);
  REQUIRE(stream.claim());
  const auto batch = stream.read();
  REQUIRE(batch);
  const auto refused = stream.acknowledge(first, *batch);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == "lease_lost");
  CHECK(pending() == 1);
  REQUIRE(stream.acknowledge(second, *batch));
  CHECK(backlog() == 0);
}

TEST_CASE_METHOD(Leased, "a Redis that fell back to an older token gives none twice", "[recorder]") {
  run();
  for (int i = 0; i < 5; ++i) {  // each time another token
    stop();
    run();
    put_some("Turn " + std::to_string(i));
    REQUIRE(settles());
  }
  const auto before = token();
  CHECK(before > 3);
  command("HSET", keys().recorder_lease(), "token", 2, "till", 0, "holder", "another", "process", "");
  REQUIRE(comes([&] { return token() > before; }));
  put_some("After");
  REQUIRE(settles());
  check_all();
  CHECK(SqliteShell(settings.recorder.database).run("SELECT value FROM meta WHERE name = 'token'") ==
        std::to_string(token()));
}

TEST_CASE_METHOD(Leased, "an emptied Redis belongs to no database that it refused before", "[recorder]") {
  run();
  put_some("First");
  REQUIRE(settles());
  Rival rival(*this, false);
  rival.run();
  REQUIRE(rival.waits_for(RecorderPauseReason::kDatabaseMismatch));
  stop();
  server.flush_all();
  command("CONFIG", "RESETSTAT");
  REQUIRE(comes([&] {  // it has asked some times since
    const redis::Reply stats = command("INFO", "commandstats");
    const std::string_view text = stats.string().value_or("");
    constexpr std::string_view kCalls = "cmdstat_evalsha:calls=";
    const std::size_t at = std::min(text.find(kCalls), text.size() - kCalls.size()) + kCalls.size();
    return redis::parse_or_zero<int>(text.substr(at, text.find(',', at) - at)) >= 6;
  }));
  CHECK(owner().empty());
  run();
  CHECK(comes([&] { return owner() == identity(settings); }));
  REQUIRE(rival.waits_for(RecorderPauseReason::kDatabaseMismatch));
}

TEST_CASE_METHOD(Leased, "a database that was deleted under its recorder is followed by the next",
                 "[recorder]") {
  run();
  put_some("First");
  REQUIRE(settles());
  const std::string before = owner();
  for (const char* const suffix : {"", "-wal", "-shm"})
    std::filesystem::remove(settings.recorder.database + suffix);
  put(item("after", "After"));
  REQUIRE(settles());
  CHECK(owner() != before);
  CHECK(owner() == identity(settings));
}
