// When a dependency is unavailable, the recorder waits, reports the reason, and resumes without a
// restart.
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "core/search/index_folder.h"
#include "core/search/search_index.h"
#include "core/search/time_slices.h"
#include "core/text/words.h"
#include "tests/recorder/fixture.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr uid_t kNobody = 65534;

struct FaultFixture : Fixture {
  using Fixture::Fixture;
  std::string integrity() const {
    return SqliteShell(settings.recorder.database).run("PRAGMA integrity_check");
  }
  // Like freshetctl rebuild-redis --force at its end.
  void take_over_redis() {
    const auto database =
        database::Database::open(settings.recorder.database, database::Database::Mode::kRead);
    REQUIRE(database);
    recorder::Lease redis_lease(keys());
    REQUIRE(redis_lease.acquire(redis, (*database)->database_id(), 0,
                                recorder::read_lease_owner(redis, keys())->database));
    redis_lease.release(redis);
  }
  void put_some(const std::string& what, int count = 30) {
    std::vector<items::Item> many;
    for (int i = 0; i < count; ++i) {
      many.push_back(item("i" + std::to_string(i), what + " " + std::to_string(i)));
      many.back().text = std::string(1000, 'x');
    }
    put_many(many);
  }
};

// Runs on a Redis that persists everything it acknowledged.
struct DurableRedisFixture : FaultFixture {
  static RedisServer& durable_server() {
    static RedisServer one({"--appendonly", "yes", "--appendfsync", "always"});
    return one;
  }
  DurableRedisFixture() : FaultFixture(durable_server()) {}
};

}  // namespace

TEST_CASE_METHOD(FaultFixture, "a locked database is waited for; writes are refused while the stream is full",
                 "[recorder]") {
  settings.recorder.stream_max_len = 40;
  open();
  start();
  put_some("Before", 20);
  REQUIRE(becomes_idle());
  {
    SqliteShell shell(settings.recorder.database);
    shell.run("BEGIN EXCLUSIVE");
    put_some("While locked", 20);
    REQUIRE(waits_for(RecorderPauseReason::kDatabaseLocked));
    CHECK(shared->report.paused_since.load() > 0);
    CHECK(eventually(
        [&] { return shared->report.lag_entries.load() == 20 && shared->report.lag_age_ms.load() > 0; }));
    put_some("Until full", 20);
    const auto refused = run_sync(items->put(item("x", "Refused")));
    REQUIRE_FALSE(refused);
    CHECK(error_of(refused).reason == "stream_full");
    shell.run("ROLLBACK");
  }
  REQUIRE(becomes_idle());
  CHECK(shared->report.paused_since.load() == 0);
  CHECK(shared->report.reason.load() == RecorderPauseReason::kNone);
  put(item("x", "Taken"));
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "a database that is locked at the start is waited for", "[recorder]") {
  SqliteShell shell(settings.recorder.database);
  shell.run("CREATE TABLE other (a); BEGIN EXCLUSIVE");
  put_some("Before");
  start();
  REQUIRE(waits_for(RecorderPauseReason::kDatabaseLocked));
  shell.run("ROLLBACK; DROP TABLE other");
  REQUIRE(becomes_idle());
  check_all();
}

// The disk is full for this process: its files cannot grow beyond a limit, as under a quota.
TEST_CASE_METHOD(FaultFixture, "a full disk is waited for, and nothing is lost or torn", "[recorder]") {
  start_process([] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit full{256 * 1024, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &full);
  });
  for (int i = 0; i < 10; ++i) put_some("Round " + std::to_string(i), 400);
  REQUIRE(waits_for(RecorderPauseReason::kDatabaseFull));
  CHECK(integrity() == "ok");
  CHECK(backlog() > 0);
  const rlimit room{RLIM_INFINITY, RLIM_INFINITY};
  REQUIRE(prlimit(child, RLIMIT_FSIZE, &room, nullptr) == 0);
  REQUIRE(becomes_idle());
  stop();
  check_all();
  CHECK(integrity() == "ok");
}

TEST_CASE_METHOD(FaultFixture, "a read-only database is waited for", "[recorder]") {
  // Permissions do not apply to root, so the recorder runs as another user.
  const bool root = geteuid() == 0;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::permissions(server.directory(), std::filesystem::perms::all);
  const auto as_nobody = [root] {
    if (root && (setresgid(kNobody, kNobody, kNobody) != 0 || setresuid(kNobody, kNobody, kNobody) != 0))
      _exit(9);
  };
  start_process(as_nobody);
  put_some("Before");
  REQUIRE(becomes_idle());
  stop();
  const std::filesystem::path file = settings.recorder.database;
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  put_some("While read-only");
  start_process(as_nobody);
  REQUIRE(waits_for(RecorderPauseReason::kDatabaseReadOnly));
  CHECK(backlog() > 0);
  std::filesystem::permissions(file,
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  REQUIRE(becomes_idle());
  stop();
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "an unreadable database or a missing directory is waited for", "[recorder]") {
  const std::filesystem::path file = settings.recorder.database;
  SECTION("another file is in its place") {
    std::ofstream(file) << std::string(8192, 'x');
    put_some("Before");
    start();
    REQUIRE(waits_for(RecorderPauseReason::kDatabaseError));
    CHECK(std::filesystem::file_size(file) == 8192);
    std::filesystem::remove(file);
  }
  SECTION("its directory is missing") {
    settings.recorder.database = (folder.path() / "later" / "items.db").string();
    put_some("Before");
    start();
    REQUIRE(waits_for(RecorderPauseReason::kDatabaseError));
    std::filesystem::create_directory(folder.path() / "later");
  }
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "a database written by a later version is left unchanged and waited for",
                 "[recorder]") {
  const std::filesystem::path file = settings.recorder.database;
  const auto bytes = [&] {
    std::ifstream stream(file, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(stream), {}};
  };
  start();
  put_some("Before");
  REQUIRE(becomes_idle());
  stop();
  const std::string version = SqliteShell(file).run("PRAGMA user_version");
  SqliteShell(file).run("CREATE TABLE later_version (a); PRAGMA user_version = 1000");
  const std::string as_it_was = bytes();
  put_some("After");
  put(item("x", "Of the time between"));
  const auto waiting = backlog();
  start();
  REQUIRE(waits_for(RecorderPauseReason::kDatabaseNewer));
  CHECK(shared->report.paused_since.load() > 0);
  REQUIRE(eventually([&] { return shared->report.lag_entries.load() == 31; }));
  CHECK(waiting == 31);
  CHECK(backlog() == waiting);
  CHECK(bytes() == as_it_was);
  CHECK((!std::filesystem::exists(file.string() + "-wal") ||
         std::filesystem::file_size(file.string() + "-wal") == 0));
  SqliteShell(file).run("DROP TABLE later_version; PRAGMA user_version = " + version);
  REQUIRE(becomes_idle());
  stop();
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "a database deleted under the recorder is created again", "[recorder]") {
  start();
  put_some("Before");
  REQUIRE(becomes_idle());
  const bool all = GENERATE(false, true);
  std::filesystem::remove(settings.recorder.database);
  if (all) {
    std::filesystem::remove(settings.recorder.database + "-wal");
    std::filesystem::remove(settings.recorder.database + "-shm");
  }
  model.clear();
  put(item("after", "After"));
  put(item("i3", "After"));
  REQUIRE(becomes_idle());
  check_database();
  CHECK(integrity() == "ok");
}

TEST_CASE_METHOD(FaultFixture, "a database replaced by an older copy continues from that copy",
                 "[recorder]") {
  start();
  put(item("old", "Old"));
  REQUIRE(becomes_idle());
  const std::string path = settings.recorder.database;
  SqliteShell(path).run("VACUUM INTO '" + path + ".copy'");
  const auto copied = model;
  put_some("Not in the copy", 300);
  REQUIRE(becomes_idle());
  std::filesystem::rename(path + ".copy", path);
  model = copied;
  put(item("new", "New"));
  REQUIRE(becomes_idle());
  check_database();
  CHECK(integrity() == "ok");
}

TEST_CASE_METHOD(FaultFixture, "deleting a database's WAL loses nothing", "[recorder]") {
  start();
  put_some("Before");
  REQUIRE(becomes_idle());
  std::filesystem::remove(settings.recorder.database + "-wal");
  put(item("after", "After"));
  REQUIRE(becomes_idle());
  check_all();
  CHECK(integrity() == "ok");
}

TEST_CASE_METHOD(FaultFixture, "an index that cannot be created is waited for", "[recorder]") {
  std::ofstream(settings.search.index) << "in the way";
  put_some("Before");
  start();
  REQUIRE(waits_for(RecorderPauseReason::kIndexError));
  CHECK(backlog() == 30);
  std::filesystem::remove(settings.search.index);
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "an index deleted under the recorder is created again", "[recorder]") {
  start();
  put_some("Before");
  REQUIRE(becomes_idle());
  std::filesystem::remove_all(settings.search.index);
  put_some("After");
  put(item("new", "New"));
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "the recorder waits while the index is rebuilt, then writes the new one",
                 "[recorder]") {
  start_process();
  put_some("Before");
  REQUIRE(becomes_idle());
  {
    auto rebuild = search::IndexRebuild::start(settings.search);
    REQUIRE(rebuild);
    put(item("meanwhile", "Meanwhile"));
    REQUIRE(waits_for(RecorderPauseReason::kIndexLocked));
    auto database = database::Database::open(settings.recorder.database, database::Database::Mode::kRead);
    REQUIRE(database);
    REQUIRE((*database)->for_each_item([&](const items::Item& each) { return (*rebuild)->put(each); }));
    REQUIRE((*rebuild)->finish());
  }
  REQUIRE(becomes_idle());
  put(item("after", "After"));
  REQUIRE(becomes_idle());
  stop();
  check_all();
}

TEST_CASE_METHOD(FaultFixture,
                 "an index of another version is rebuilt while it is searched and written, with progress",
                 "[recorder]") {
  start();
  std::vector<items::Item> many;
  for (int i = 0; i < 500; ++i) {
    many.push_back(item("many" + std::to_string(i), "word", 1700000000 - i * 1800));
    for (int word = 0; word < 300; ++word) many.back().text += " w" + std::to_string(i * word);
  }
  put_many(many);
  REQUIRE(becomes_idle());
  stop();
  const search::IndexFolder folder_of_index(settings.search.index);
  std::vector<search::TimeSlice> old;
  const auto rebuild_is_seen = [&] {
    old = folder_of_index.slices().value();
    for (const search::TimeSlice& each : old) {
      Xapian::WritableDatabase slice(folder_of_index.path_of(each), Xapian::DB_OPEN);
      slice.set_metadata(search::kVersionKey, "an older version");
      for (auto post = slice.postlist_begin("word"); post != slice.postlist_end("word"); ++post) {
        Xapian::Document document = slice.get_document(*post);
        document.add_term("outdated");
        slice.replace_document(*post, document);
      }
      slice.commit();
    }
    start();
    bool is_seen = false;
    REQUIRE(eventually([&] {
      is_seen = shared->report.items_to_reindex.load() == 500;
      return is_seen || folder_of_index.slices().value() != old;
    }));
    if (!is_seen) stop();  // this thread was too late
    return is_seen;
  };
  bool is_seen = false;
  for (int attempt = 0; attempt < 20 && !is_seen; ++attempt) is_seen = rebuild_is_seen();
  REQUIRE(is_seen);
  put(item("many7", "changed"));
  remove("many8");
  REQUIRE(eventually([&] {
    try {
      const Xapian::Database index(settings.search.index);
      CHECK(index.get_termfreq("word") >= 498);
      return !index.term_exists("outdated");
    } catch (const Xapian::Error&) {  // the index was just swapped or committed twice
      return false;
    }
  }));
  REQUIRE(becomes_idle());
  CHECK(eventually([&] { return shared->report.items_to_reindex.load() == 0; }));
  CHECK(shared->report.reindexed_items.load() == 0);
  put(item("after", "After"));
  REQUIRE(becomes_idle());
  stop();
  const std::vector<search::TimeSlice> rebuilt = folder_of_index.slices().value();
  for (const search::TimeSlice& each : rebuilt) {
    CHECK(Xapian::Database(folder_of_index.path_of(each)).get_metadata(search::kVersionKey) ==
          text::pipeline_version());
    CHECK(std::find(old.begin(), old.end(), each) == old.end());
  }
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "an index without stems of search.stemmer is rebuilt", "[recorder]") {
  start();
  put_many({item("a", "Elections", 1700000000), item("b", "Whales", 1600000000)});
  REQUIRE(becomes_idle());
  stop();
  for (const char* stemmer : {"english", "german", "none"}) {
    settings.search.stemmer = stemmer;
    start();
    put(item("c", "Elections", 1700000000));
    const search::IndexFolder index(settings.search.index);
    CHECK(eventually([&] {
      const auto slices = index.slices().value();
      return std::all_of(slices.begin(), slices.end(), [&](const search::TimeSlice& each) {
        return Xapian::Database(index.path_of(each)).get_metadata(search::kVersionKey) ==
               search::terms_version(stemmer);
      });
    }));
    REQUIRE(becomes_idle());
    stop();
    check_all();
  }
}

TEST_CASE_METHOD(FaultFixture, "a rebuild of an outdated index that is killed starts again", "[recorder]") {
  start();
  std::vector<items::Item> many;
  for (int i = 0; i < 1000; ++i) {
    many.push_back(item("many" + std::to_string(i), "word"));
    for (int word = 0; word < 100; ++word) many.back().text += " w" + std::to_string(i * word);
  }
  put_many(many);
  REQUIRE(becomes_idle());
  stop();
  const search::IndexFolder folder_of_index(settings.search.index);
  int seen = 0;
  for (int attempt = 0; attempt < 20 && seen < 2; ++attempt) {
    const std::vector<search::TimeSlice> old = folder_of_index.slices().value();
    for (const search::TimeSlice& each : old) {
      Xapian::WritableDatabase slice(folder_of_index.path_of(each), Xapian::DB_OPEN);
      slice.set_metadata(search::kVersionKey, "an older version");
      slice.commit();
    }
    start_process();
    bool is_seen = false;
    REQUIRE(eventually([&] {
      is_seen = shared->report.reindexed_items.load() > 0;
      return is_seen || folder_of_index.slices().value() != old;
    }));
    kill_process();
    shared->report.reindexed_items.store(0);
    if (is_seen) ++seen;
  }
  REQUIRE(seen == 2);
  start();
  REQUIRE(eventually([&] {
    return Xapian::Database(folder_of_index.path_of(folder_of_index.slices()->front()))
               .get_metadata(search::kVersionKey) == text::pipeline_version();
  }));
  put(item("after", "After"));
  REQUIRE(becomes_idle());
  stop();
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "after FLUSHALL the recorder starts a new session and records what follows",
                 "[recorder]") {
  start();
  for (int round = 0; round < 5; ++round) {
    put_some("Round " + std::to_string(round));
    REQUIRE(becomes_idle());
    server.flush_all();
  }
  put(item("after", "After"));
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "data written before FLUSHALL is indexed as well as recorded", "[recorder]") {
  const auto searched = [this](const std::string& id) {
    return Xapian::Database(settings.search.index).term_exists(search::id_term(ItemId::trusted(id)));
  };
  start();
  // For a while after a commit of the index, changes are only recorded.
  bool only_kept = false;
  for (int round = 0; round < 50 && !only_kept; ++round) {
    put(item("before" + std::to_string(round), "Before"));
    REQUIRE(becomes_idle());
    const std::string id = "held" + std::to_string(round);
    put(item(id, "Held"));
    REQUIRE(eventually([&] { return recorded().contains(id); }));
    server.flush_all();
    only_kept = !searched(id);
    REQUIRE(eventually([&] { return searched(id); }));
  }
  REQUIRE(only_kept);
  put(item("after", "After"));
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "a data loss of Redis is recorded once, however it is detected",
                 "[recorder]") {
  settings.recorder.rebuild = "manual";
  open();
  start();
  put_some("Before");
  REQUIRE(becomes_idle());
  CHECK(recorded_data_loss().empty());  // a new Redis and a new database
  SECTION("it is flushed and immediately written to") {
    server.flush_all();
    put_some("After");
    REQUIRE(eventually([&] { return !recorded_data_loss().empty(); }));
  }
  SECTION("it is flushed while no recorder runs") {
    stop();
    server.flush_all();
    put_some("After");
    start();
    REQUIRE(eventually([&] { return !recorded_data_loss().empty(); }));
  }
  SECTION("a crash between recording the loss and creating the group") {
    stop();
    server.flush_all();
    command("SET", keys().data_lost_at(), "1");
    start();
    REQUIRE(eventually([&] { return recorded_data_loss().size() > 1; }));
  }
  REQUIRE(becomes_idle());
  const std::string noted = recorded_data_loss();
  stop();
  start();  // it stays until someone restores the data
  put(item("later", "Later"));
  REQUIRE(becomes_idle());
  CHECK(recorded_data_loss() == noted);
}

TEST_CASE_METHOD(FaultFixture, "a Redis that lost its items gets them back, and newer changes win",
                 "[recorder]") {
  start();
  put_some("Before", 1200);
  interact("ann", "i7", wall_now().time_since_epoch().count());
  put(item("deleted", "To be deleted"));
  REQUIRE(becomes_idle());
  stop();
  server.flush_all();
  put(item("i3", "After"));
  remove("deleted");
  SECTION("immediately") {}
  SECTION("after a restore that was killed") {
    settings.recorder.batch_size = 1;
    start_process();
    REQUIRE(eventually([&] { return !recorded_data_loss().empty(); }));
    kill_process();
  }
  start();
  REQUIRE(becomes_idle());
  REQUIRE(eventually([&] { return recorded_data_loss().empty(); }));
  for (const auto& [id, expected] : model) {
    INFO(id);
    const auto there = run_sync(items->get(ItemId::trusted(id)));
    REQUIRE(there);
    CHECK(there->title == expected.title);
  }
  CHECK_FALSE(run_sync(items->get(ItemId::trusted("deleted"))));
  CHECK_FALSE(command("ZSCORE", keys().interactions("ann"), "l:i7").is_nil());
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "a database without recorded entries detects no loss", "[recorder]") {
  put_some("Before");
  SECTION("Redis is new") { command("DEL", keys().partition(0).stream()), model.clear(); }
  SECTION("Redis has a stream without a group") {}
  SECTION("Redis has a stream and a group of a deleted database") {
    start();
    REQUIRE(becomes_idle());
    stop();
    for (const char* const suffix : {"", "-wal", "-shm"})
      std::filesystem::remove(settings.recorder.database + suffix);
    std::filesystem::remove_all(settings.search.index);
    model.clear();
    start();
    REQUIRE(waits_for(RecorderPauseReason::kDatabaseMismatch));
    stop();
    take_over_redis();
  }
  start();
  put(item("x", "After"));
  REQUIRE(becomes_idle());
  CHECK(recorded_data_loss().empty());
  check_all();
}

TEST_CASE_METHOD(DurableRedisFixture, "a killed Redis is waited for", "[recorder]") {
  start();
  put_some("Before");
  REQUIRE(becomes_idle());
  restart_redis([&] { REQUIRE(waits_for(RecorderPauseReason::kRedisUnavailable)); });
  put_some("After");
  REQUIRE(becomes_idle());
  check_all();
  CHECK(recorded_data_loss().empty());
}

TEST_CASE_METHOD(DurableRedisFixture, "a batch in progress when Redis is killed is recorded when it is back",
                 "[recorder]") {
  settings.recorder.batch_size = 20;
  put_some("Before", 1000);
  start();
  for (int round = 0; round < 5; ++round) {
    put_some("Round " + std::to_string(round), 300);
    restart_redis();
  }
  REQUIRE(becomes_idle());
  check_all();
}

// The recorder is given six versions of an item, two at a time. The first two are acknowledged at
// once. The others are recorded but not indexed when Redis refuses the next read, and Redis stays
// unavailable until the index is due again.
TEST_CASE_METHOD(FaultFixture, "unindexed changes are not acknowledged before all of them came again",
                 "[recorder]") {
  const auto allow = [&](const std::string& what) {
    command("ACL", "LOG", "RESET");
    command("ACL", "SETUSER", "forgetful", what);
  };
  const auto is_refused = [&](const std::string& what, int times) {
    return eventually([&] {
      const auto log = command("ACL", "LOG");  // a row: names and values; of count, reason, context, object …
      for (std::size_t i = 0; i < log.size(); ++i) {
        if (redis::string_at(log[i], 7) == what) return log[i][1].integer().value_or(0) >= times;
      }
      return false;
    });
  };
  command("ACL", "SETUSER", "forgetful", "reset", "on", ">forgetful", "~*", "&*", "+@all");
  endpoint.username = endpoint.password = "forgetful";
  settings.recorder.batch_size = 2;
  int version = 0;
  do {  // repeated if the disk was so slow that a commit came in between
    allow("+@all");
    start();
    REQUIRE(becomes_idle());
    stop();
    for (int i = 0; i < 6; ++i) put(item("a", "Version " + std::to_string(++version)));
    command("XREADGROUP", "GROUP", "recorder", "recorder", "STREAMS", keys().partition(0).stream(),
            ">");  // as its predecessor
    allow("-xreadgroup");
    start();
    REQUIRE(is_refused("xreadgroup", 1));
    allow("-@all");
    REQUIRE(is_refused("hmget", 4));  // after 100, 200 and 400 ms
  } while (pending() != 4);
  allow("+@all");
  REQUIRE(becomes_idle());
  stop();
  command("ACL", "DELUSER", "forgetful");
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "a recorder whose Redis hangs reports it, and stops on request",
                 "[recorder]") {
  start();
  put_some("Before");
  REQUIRE(becomes_idle());
  server.pause();
  CHECK(waits_for(RecorderPauseReason::kRedisUnavailable));
  stop();
  server.resume();
  check_all();
}

TEST_CASE_METHOD(FaultFixture, "a stream key of another type is waited for", "[recorder]") {
  command("SET", keys().partition(0).stream(), "in the way");
  start();
  REQUIRE(waits_for(RecorderPauseReason::kRedisUnavailable));
  command("DEL", keys().partition(0).stream());
  put_some("After");
  REQUIRE(becomes_idle());
  check_all();
}
