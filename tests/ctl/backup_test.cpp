// Backups are complete or absent, are verified byte by byte, and restore into an empty Redis and
// folder.
#include "scripts/ctl/backup/backup.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "core/base/fingerprint.h"
#include "core/database/database.h"
#include "core/database/database_copy.h"
#include "core/readers/reader_store.h"
#include "core/recorder/lease.h"
#include "core/redis/cluster/slot.h"
#include "core/redis/schema.h"
#include "core/timeline/follow_store.h"
#include "core/tuning/view_history.h"
#include "fcgi/reader_hashes.h"
#include "scripts/ctl/backup/backup_folder.h"
#include "scripts/ctl/backup/convert_dump.h"
#include "scripts/ctl/backup/load_redis.h"
#include "scripts/ctl/backup/redis_dump.h"
#include "scripts/ctl/backup/restore.h"
#include "scripts/ctl/backup/save_redis.h"
#include "scripts/ctl/check/check.h"
#include "scripts/ctl/replay/event_log.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/error_of.h"
#include "tests/support/redis_cluster.h"
#include "tests/support/repeat_count.h"
#include "tests/support/store_fixture.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace fs = std::filesystem;

namespace {

constexpr const char* kSalt = "0123456789abcdef0123456789abcdef";

std::string bytes_of(const fs::path& path) {
  const auto text = read_file(path.string());
  REQUIRE(text);
  return *text;
}
void write_to(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Contents of every key, whatever its type, sorted unless their order counts.
std::map<std::string, std::string> read_all_keys(Fixture& fixture, redis::BlockingRedis& redis) {
  const auto ask = [&](auto... words) {
    redis::Pipeline one;
    one.add(words...);
    auto replies = redis.call(one);
    REQUIRE(replies);
    return std::move(replies->front());
  };
  const auto joined = [](const redis::Reply& reply, std::size_t step, bool sorted = true) {
    std::vector<std::string> parts;
    for (std::size_t i = 0; i + step <= reply.size(); i += step) {
      std::string part;
      for (std::size_t j = i; j < i + step; ++j) part += std::string(redis::string_at(reply, j)) + "|";
      parts.push_back(part);
    }
    if (sorted) std::sort(parts.begin(), parts.end());
    std::string out;
    for (const std::string& each : parts) out += each + " ";
    return out;
  };
  // Servers write the same score with 15 to 17 digits.
  const auto scored = [](const redis::Reply& reply) {
    std::map<std::string, double> scores;
    for (std::size_t i = 0; i + 1 < reply.size(); i += 2)
      scores[std::string(redis::string_at(reply, i))] =
          redis::parse<double>(redis::string_at(reply, i + 1)).value();
    std::string text;
    for (const auto& [member, score] : scores) text += fmt::format("{}|{}| ", member, score);
    return text;
  };
  std::map<std::string, std::string> out;
  const auto found = ask("KEYS", "*");
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::string key(redis::string_at(found, i));
    const redis::KeyPattern* const pattern = fixture.keys().pattern_of(key);
    REQUIRE(pattern != nullptr);
    if (is_excluded_from_backup(pattern->pattern) && pattern->pattern != "hot:rank") continue;
    const std::string_view type = pattern->type;
    std::string& value = out[key];
    if (type == "string") value = ask("GET", key).string().value();
    if (type == "hash") value = joined(ask("HGETALL", key), 2);
    if (type == "set") value = joined(ask("SMEMBERS", key), 1);
    if (type == "zset") value = scored(ask("ZRANGE", key, "0", "-1", "WITHSCORES"));
    if (type == "list") value = joined(ask("LRANGE", key, "0", "-1"), 1, false);
    if (type == "stream") {
      const auto entries = ask("XRANGE", key, "-", "+");
      for (std::size_t j = 0; j < entries.size(); ++j)
        value += std::string(redis::string_at(entries[j], 0)) + ": " + joined(entries[j][1], 2, false);
    }
    value += ask("TTL", key).integer().value_or(-9) < 0 ? " for ever" : " for a time";
  }
  return out;
}

// Redis and files of a service, without the service: the source or the target of a backup.
struct BackupSite : Fixture {
  TemporaryDirectory directory;
  std::string program = redis_program();
  std::vector<std::string> options = {};
  RedisServer own_server{options, program};
  redis::Endpoint endpoint = own_server.endpoint();
  redis::BlockingRedis redis_there{endpoint, milliseconds(10000), redis::kAllScripts};
  Target target;

  BackupSite() { set_up(); }
  explicit BackupSite(std::string server, std::vector<std::string> server_options = {})
      : program(std::move(server)), options(std::move(server_options)) {
    set_up();
  }
  explicit BackupSite(const RedisCluster& cluster, int partition_count = 16) : endpoint(cluster.endpoint()) {
    settings.redis.url = fmt::format("redis+cluster://{}:{}", cluster.host(0), LoopbackAddresses::kRedisPort);
    settings.redis.partitions = partition_count;
    partitions = static_cast<unsigned>(partition_count);
    set_up();
  }
  void set_up() {
    if (!settings.redis.is_cluster()) settings.redis.url = own_server.url();
    open();
    settings.recorder.database = path("freshet.db");
    target.config = path("freshet.toml");
    write_to(path("salt"), kSalt);
    write_to(target.config, "redis.url = \"" + settings.redis.url +
                                "\"\nredis.partitions = " + std::to_string(settings.redis.partitions) +
                                "\nrecorder.database = \"" + path("freshet.db") + "\"\nsearch.index = \"" +
                                path("index") + "\"\nrecommend.model = \"" + path("freshet.model") +
                                "\"\nidentity.salt_file = \"" + path("salt") + "\"\n");
  }
  std::string path(const std::string& name) const { return (directory.path() / name).string(); }
  std::unique_ptr<database::Database> database() const {
    auto opened = database::Database::open(settings.recorder.database, database::Database::Mode::kWrite);
    REQUIRE(opened);
    return std::move(*opened);
  }
  template <class Write>
  void record(Write write) const {
    const auto database = this->database();
    REQUIRE(database->begin());
    write(*database);
    REQUIRE(database->commit());
  }
  Result<int> back_up(const std::string& name = "backup") const {
    return run_backup({path(name), false, false, true}, target);
  }
  Result<int> restore(const std::string& folder, bool replace = false, const std::string& erase = {},
                      bool accept_unknown_erasures = true) const {
    return run_restore({folder, replace, erase, accept_unknown_erasures, true}, target);
  }
  std::map<std::string, std::string> key_contents() { return read_all_keys(*this, redis_there); }
};

items::Item make_item(const std::string& id, const std::string& title) {
  items::Item out;
  out.id = ItemId::trusted(id);
  out.title = title;
  out.tags = {TagName::trusted("swift"), TagName::trusted("news")};
  static const UnixSeconds kLately = wall_now() - seconds(3600);  // older items no longer have a score
  out.published_at = kLately;
  return out;
}

// Populates the stores as a busy site does: items, counters, interactions, timelines.
void populate(BackupSite& site) {
  items::RedisItemStore items(site.redis_there, site.settings, site.keys(),
                              items::RedisItemStore::StreamPolicy::kSkip);
  ImmediateWriteQueue later(site.redis_there);
  int events = 0;
  DeferredWork behind(later, site.settings, site.keys());
  hot::RedisHotStore hot(site.redis_there, behind.writers, site.settings, site.keys(),
                         [&] { return "made-" + std::to_string(++events); });
  site.settings.fanout.max_push_followers = 100;
  timeline::RedisFollowStore follows(site.redis_there, site.settings, site.keys(), [] { return "j"; });
  site.record([&](database::Database& database) {
    for (int i = 0; i < 50; ++i) {
      const items::Item item = make_item("i" + std::to_string(i), "about " + std::to_string(i));
      REQUIRE(run_sync(items.put(item)));
      REQUIRE(database.put_item(item));
      for (int reader = 0; reader <= i % 5; ++reader) {
        const std::string who = "r" + std::to_string(reader);
        REQUIRE(run_sync(hot.track(Fixture::track_event(item.id.str(), who, 1000 + 10 * i))));
        REQUIRE(run_sync(hot.view(Fixture::view_event(item.id.str(), who))));
      }
    }
    // An article that only a client has dated: its hash has binary fields.
    hot::ViewEvent undated = Fixture::view_event("undated", "f");
    undated.admission = {.network = "network", .wide_network = "wide"};
    REQUIRE(run_sync(hot.view(undated)));
    behind.flush();
    for (int reader = 0; reader < 5; ++reader) {
      const auto who = ReaderId::trusted("r" + std::to_string(reader));
      REQUIRE(run_sync(follows.follow(who, AuthorId::trusted("ann"))));
      REQUIRE(database.readers().put_follow({who, AuthorId::trusted("ann"), wall_now()}));
      REQUIRE(database.readers().put_interaction(
          {who, ItemId::trusted("i1"), readers::Interaction::kLike, wall_now(), {}}));
    }
    const UnixSeconds bucket{seconds{unix_s(wall_now()) / 300 * 300}};
    REQUIRE(database.add_views(bucket, ItemId::trusted("i1"), 17, wall_now()));
    REQUIRE(database.add_covisits(ItemId::trusted("i1"), ItemId::trusted("i2"), wall_now(), 3, wall_now()));
    REQUIRE(database.put_last_entry("", "1-1"));
  });
  // The streams have been recorded, so a restore has nothing pending to record.
  redis::Pipeline cut;
  for (const redis::PartitionKeys& each : site.keys().partitions()) cut.add("DEL", each.stream());
  const std::string history = site.keys().view_history(readers::ViewKind::kTopic, "r1");
  cut.add("RPUSH", history, "i3", "i1", "i2").add("EXPIRE", history, 5000);
  REQUIRE(site.redis_there.call(cut));
}

readers::ReaderPseudonyms erasure_hashes() {
  static auto identity = http::Identity::create(http::IdentityMode::kHeader, kSalt);
  REQUIRE(identity);
  return reader_hashes(*identity);
}

std::int64_t count_violations(BackupSite& site) {
  Findings findings;
  CheckOptions options;
  options.quiet = true;
  REQUIRE(check_redis(site.redis_there, site.settings, options, findings));
  INFO(findings.text());
  CHECK(findings.text().empty());
  return findings.remaining(Level::kViolation);
}

}  // namespace

TEST_CASE("a restore into an empty Redis and folder reproduces what was backed up", "[backup]") {
  BackupSite from, to;
  populate(from);
  write_to(from.path("freshet.model"), std::string(100000, 'm'));
  REQUIRE(from.back_up());
  CHECK(verify_backup(from.path("backup")));
  REQUIRE(to.restore(from.path("backup")));
  auto before = from.key_contents(), after = to.key_contents();
  after.erase(to.keys().partition(0).stream());  // created for the recorder
  // Interactions are in the database as well; the restore writes them to Redis, which had none.
  for (int reader = 0; reader < 5; ++reader)
    after.erase(to.keys().interactions("r" + std::to_string(reader)));
  CHECK(before.size() > 150);
  for (const auto& [key, value] : before) {
    INFO(key);
    CHECK(after[key] == value);
  }
  for (const auto& [key, value] : after) {
    INFO(key);
    CHECK(before.contains(key));
  }
  CHECK(count_violations(to) == 0);
  CHECK(to.database()->item_count() == 50);
  CHECK(to.database()->readers().count_interactions() == 5);
  const auto views = tuning::read_view_history(to.settings.recorder.database, wall_now(), seconds(0));
  REQUIRE(views);
  REQUIRE(views->counts.size() == 1);
  CHECK(views->counts[0].views == 17);
  const auto covisits = to.database()->covisits(ItemId::trusted("i1"), 9, wall_now());
  REQUIRE(covisits);
  REQUIRE(covisits->size() == 1);
  CHECK(covisits->front().next.str() == "i2");
  CHECK(bytes_of(to.path("freshet.model")) == bytes_of(from.path("freshet.model")));
  CHECK(fs::exists(to.path("index")));
}

TEST_CASE("a backup is readable by its owner only and its checksums match sha256sum", "[backup]") {
  BackupSite from;
  populate(from);
  REQUIRE(from.back_up());
  for (const auto& each : fs::recursive_directory_iterator(from.path("backup"))) {
    INFO(each.path());
    CHECK((each.status().permissions() & fs::perms::mask) == fs::perms(0600));
  }
  CHECK((fs::status(from.path("backup")).permissions() & fs::perms::mask) == fs::perms(0700));
  CHECK(std::system(("cd " + from.path("backup") + " && sha256sum --status -c manifest.sha256").c_str()) ==
        0);
  const auto manifest = verify_backup(from.path("backup"));
  REQUIRE(manifest);
  for (const BackupFile& each : manifest->files) {
    const std::string line = "cd " + from.path("backup") + " && echo '" + each.sha256 + "  " + each.name +
                             "' | sha256sum --status -c";
    CHECK(std::system(line.c_str()) == 0);
  }
}

TEST_CASE("a backup with a changed, truncated or missing file is rejected with the file's name", "[backup]") {
  BackupSite from, to;
  populate(from);
  write_to(from.path("freshet.model"), "model");
  REQUIRE(from.back_up());
  const fs::path good = from.path("backup");
  const std::string name =
      GENERATE("manifest.json", "manifest.sha256", "freshet.db", "redis.dump", "freshet.model");
  const fs::path broken = from.path("broken");
  const auto refused = [&](const std::function<void(const fs::path&)>& damage) {
    fs::remove_all(broken);
    fs::copy(good, broken, fs::copy_options::recursive);
    damage(broken / name);
    CHECK(run_backup({broken.string(), true, false, true}, {}) != 0);
    const auto verified = verify_backup(broken.string());
    const auto restored = to.restore(broken.string());
    REQUIRE_FALSE(verified);
    REQUIRE_FALSE(restored);
    CHECK(error_of(verified).reason == "bad_backup");
    CHECK(error_of(restored).detail == error_of(verified).detail);
    // A wrong checksum file is reported as a mismatch of manifest.json.
    const bool of_manifest = name == "manifest.sha256" && fs::exists(broken / name);
    CHECK(error_of(verified).detail.starts_with(of_manifest ? "manifest.json" : name));
  };
  const std::string bytes = bytes_of(good / name);
  for (const std::size_t at : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
    refused([&](const fs::path& file) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      write_to(file, changed);
    });
    refused([&](const fs::path& file) { write_to(file, bytes.substr(0, at)); });
  }
  refused([](const fs::path& file) { fs::remove(file); });
  CHECK(to.key_contents().empty());
  CHECK_FALSE(fs::exists(to.path("freshet.db")));
}

TEST_CASE("a truncated or malformed dump is never read as complete", "[backup]") {
  const TemporaryDirectory directory;
  const std::string whole = (directory.path() / "redis.dump").string();
  {
    auto writer = DumpWriter::create(whole);
    REQUIRE(writer);
    DumpRecord record;
    record.key = "k";
    record.expires_ms = 123456789012;
    record.value = std::string("a\0b", 3);
    REQUIRE(writer->add(record));
    record.type = DumpRecord::Type::kSortedSet;
    record.members = {"one", "1.5", "", "2"};
    REQUIRE(writer->add(record));
    REQUIRE(writer->finish());
  }
  const auto read_all = [](const std::string& path) {
    std::vector<DumpRecord> out;
    auto reader = DumpReader::open(path);
    while (reader) {
      DumpRecord record;
      const auto more = reader->next(record);
      if (!more) return Result<std::vector<DumpRecord>>(tl::unexpected(more.error()));
      if (!*more) return Result<std::vector<DumpRecord>>(out);
      out.push_back(record);
    }
    return Result<std::vector<DumpRecord>>(tl::unexpected(reader.error()));
  };
  const auto records = read_all(whole);
  REQUIRE(records);
  REQUIRE(records->size() == 2);
  CHECK(records->front().key == "k");
  CHECK(records->front().expires_ms == 123456789012);
  CHECK(records->front().value == std::string("a\0b", 3));
  CHECK(records->back().members == std::vector<std::string>{"one", "1.5", "", "2"});
  const std::string bytes = bytes_of(whole);
  const std::string cut = (directory.path() / "cut").string();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    write_to(cut, bytes.substr(0, size));
    INFO(size);
    CHECK_FALSE(read_all(cut));
  }
  write_to(cut, bytes + "x");
  CHECK_FALSE(read_all(cut));
  // Corrupts every byte in turn; 0xff inside a length asks for gigabytes.
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string changed = bytes;
    changed[at] = static_cast<char>(0xff);
    write_to(cut, changed);
    (void)read_all(cut);  // must not crash or loop forever; bytes of a value have a checksum elsewhere
  }
}

TEST_CASE("an existing folder is not overwritten, except for leftovers of a crashed backup", "[backup]") {
  BackupSite from;
  populate(from);
  fs::create_directory(from.path("backup"));
  const auto refused = from.back_up();
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "backup_exists");
  CHECK(fs::is_empty(from.path("backup")));
  fs::create_directory(from.path("next.partial"));
  write_to(from.path("next.partial/freshet.db"), "half");
  REQUIRE(from.back_up("next"));
  CHECK(verify_backup(from.path("next")));
  CHECK_FALSE(fs::exists(from.path("next.partial")));
  const auto held = BackupWriter::create(from.path("third"));
  REQUIRE(held);
  const auto second = from.back_up("third");
  REQUIRE_FALSE(second);
  CHECK(error_of(second).reason == "backup_running");
}

TEST_CASE("a failed backup leaves nothing behind", "[backup]") {
  BackupSite from;
  populate(from);
  from.own_server.kill();
  REQUIRE_FALSE(from.back_up());
  CHECK_FALSE(fs::exists(from.path("backup")));
  CHECK_FALSE(fs::exists(from.path("backup.partial")));
}

TEST_CASE("existing data in Redis or on disk is only deleted with --replace", "[backup]") {
  BackupSite from, to;
  populate(from);
  REQUIRE(from.back_up());
  const std::string before = GENERATE("a key", "a database");
  ImmediateWriteQueue later(to.redis_there);
  DeferredWork behind(later, to.settings, to.keys());
  hot::RedisHotStore hot(to.redis_there, behind.writers, to.settings, to.keys(), [] { return "e"; });
  if (before == "a key")
    REQUIRE(run_sync(hot.track(Fixture::track_event("other", "r", 1))));
  else
    to.record([](database::Database& database) { REQUIRE(database.put_item(make_item("other", "t"))); });
  const auto refused = to.restore(from.path("backup"));
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "has_data");
  REQUIRE(to.restore(from.path("backup"), true));
  CHECK(to.database()->item_count() == 50);
  CHECK_FALSE(to.key_contents().contains(to.keys().article("other")));
  CHECK(count_violations(to) == 0);
  // Repeatable, as after an interruption.
  REQUIRE(to.restore(from.path("backup"), true));
  CHECK(to.database()->item_count() == 50);
}

TEST_CASE("a restore is refused while a recorder uses the database or holds the lease", "[backup]") {
  BackupSite from, to;
  populate(from);
  REQUIRE(from.back_up());
  std::unique_ptr<database::Database> held;
  recorder::Lease elsewhere(to.keys(), seconds(600));
  const bool here = GENERATE(true, false);
  if (here)
    held = to.database();
  else
    REQUIRE(elsewhere.acquire(to.redis_there, "identity of another database", 7));
  const auto refused = to.restore(from.path("backup"), true);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "service_running");
  held.reset();
  elsewhere.release(to.redis_there);
  CHECK(to.restore(from.path("backup"), true));
}

TEST_CASE("a backup with another key prefix and a database with a newer schema are refused", "[backup]") {
  BackupSite from, to;
  populate(from);
  REQUIRE(from.back_up());
  std::ofstream(to.target.config, std::ios::app) << "redis.key_prefix = \"other:\"\n";
  const auto refused = to.restore(from.path("backup"));
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "key_mismatch");

  SqliteShell(from.path("freshet.db")).run("PRAGMA user_version = 99");
  const auto newer = from.back_up("newer");
  REQUIRE_FALSE(newer);
  CHECK(error_of(newer).detail.find("schema version 99") != std::string::npos);
}

TEST_CASE("a backup made by a newer version is refused before anything is changed", "[backup]") {
  BackupSite from, to;
  populate(from);
  populate(to);
  REQUIRE(from.back_up());
  auto manifest = verify_backup(from.path("backup"));
  REQUIRE(manifest);
  const auto later = [&](const char* name, std::int64_t schema, std::int64_t format) {
    auto made = BackupWriter::create(from.path(name));
    REQUIRE(made);
    for (const BackupFile& each : manifest->files)
      REQUIRE(made->copy((fs::path(from.path("backup")) / each.name).string(), each.name));
    SqliteShell(made->file_path(kDatabaseName)).run("PRAGMA user_version = " + std::to_string(schema));
    Manifest changed = *manifest;
    changed.files.clear();
    changed.version = "9.8.7";
    changed.schema = schema;
    changed.format = format;
    REQUIRE(made->finish(std::move(changed)));
  };
  const auto keys = to.key_contents();
  const std::string database = bytes_of(to.path("freshet.db"));
  later("schema", 99, kBackupFormat);
  const auto refused = to.restore(from.path("schema"), true);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "database_newer");
  for (const char* const text : {"Freshet 9.8.7", "schema version 99", "up to 6"})
    CHECK(error_of(refused).detail.find(text) != std::string::npos);
  later("format", manifest->schema, kBackupFormat + 1);
  const auto unread = to.restore(from.path("format"), true);
  REQUIRE_FALSE(unread);
  CHECK(error_of(unread).detail.find("9.8.7") != std::string::npos);
  CHECK(to.key_contents() == keys);
  CHECK(bytes_of(to.path("freshet.db")) == database);
  CHECK_FALSE(fs::exists(to.path("freshet.db.restoring")));
}

TEST_CASE("a backup of each older schema is restored completely", "[backup]") {
  BackupSite from, to;
  const int version = GENERATE(0, 1, 2, 3, 4, 5, 6);
  items::Item item = make_item("old", "An old one");
  if (version >= 4) {
    item.section = "Sport";
    item.weight = 0.1;
    item.expires_at = item.published_at + seconds{1};
  }
  // Downgrades a current file: each schema step only added tables and columns.
  from.record([&](database::Database& database) {
    if (version >= 1) REQUIRE(database.put_item(item));
    if (version >= 2)
      REQUIRE(database.readers().put_interaction({ReaderId::trusted("ann"),
                                                  ItemId::trusted("old"),
                                                  readers::Interaction::kLike,
                                                  UnixSeconds{seconds{5}},
                                                  {}}));
    if (version >= 3)
      REQUIRE(database.readers().put_follow(
          {ReaderId::trusted("ann"), AuthorId::trusted("bob"), UnixSeconds{seconds{5}}}));
  });
  SqliteShell shell(from.path("freshet.db"));
  if (version < 6) shell.run("DROP TABLE covisits");
  if (version < 5) shell.run("DROP TABLE view_counts");
  if (version < 4) {
    for (const std::string name :
         {"author_id", "section", "language", "story", "text_format", "expires_at", "weight"})
      shell.run("ALTER TABLE items DROP COLUMN " + name);
  }
  if (version < 3) shell.run("DROP TABLE follows");
  if (version < 2) shell.run("DROP TABLE interactions; DROP TABLE dismissals; DROP TABLE readers");
  if (version < 1) shell.run("DROP TABLE item_tags; DROP TABLE items; DROP TABLE meta");
  shell.run("PRAGMA user_version = " + std::to_string(version));
  REQUIRE(from.back_up());
  const auto manifest = verify_backup(from.path("backup"));
  REQUIRE(manifest);
  CHECK(manifest->schema == version);
  REQUIRE(to.restore(from.path("backup")));
  const auto restored = to.database();
  CHECK(restored->item_count() == (version >= 1 ? 1 : 0));
  REQUIRE(restored->for_each_item([&](const items::Item& each) {
    CHECK(each == item);
    return Result<void>();
  }));
  CHECK(restored->readers().count_interactions() == (version >= 2 ? 1 : 0));
  const auto follows = restored->readers().follows_of(ReaderId::trusted("ann"), 10);
  REQUIRE(follows);
  CHECK(follows->size() == (version >= 3 ? 1 : 0));
}

TEST_CASE("a key keeps its remaining TTL and is dropped if that is over", "[backup]") {
  BackupSite from, to;
  populate(from);
  const std::string lasting = from.keys().job("lasting"), short_lived = from.keys().job("short"),
                    over = from.keys().job("over");
  redis::Pipeline make;
  for (const std::string& key : {lasting, short_lived, over}) make.add("HSET", key, "state", "done");
  make.add("EXPIRE", lasting, 5000).add("EXPIRE", short_lived, 50).add("EXPIRE", over, 70);
  REQUIRE(from.redis_there.call(make));
  REQUIRE(from.back_up());
  // The same dump with less time left.
  const fs::path dump = fs::path(from.path("backup")) / "redis.dump";
  auto reader = DumpReader::open(dump.string());
  auto aged = BackupWriter::create(from.path("aged"));
  REQUIRE(reader);
  REQUIRE(aged);
  auto writer = DumpWriter::create(aged->file_path("redis.dump"));
  REQUIRE(writer);
  for (DumpRecord record; reader->next(record).value();) {
    CHECK(record.key != short_lived);  // not saved: its TTL is too short
    if (record.key == over) record.expires_ms -= 71'000;
    REQUIRE(writer->add(record));
  }
  REQUIRE(writer->finish());
  REQUIRE(aged->copy(from.path("backup") + "/freshet.db", "freshet.db"));
  auto manifest = verify_backup(from.path("backup"));
  REQUIRE(manifest);
  manifest->files.clear();
  REQUIRE(aged->finish(*manifest));
  REQUIRE(to.restore(from.path("aged")));
  redis::Pipeline look;
  look.add("TTL", lasting).add("EXISTS", over).add("EXISTS", short_lived);
  const auto replies = to.redis_there.call(look);
  REQUIRE(replies);
  CHECK((*replies)[0].integer().value() > 4000);
  CHECK((*replies)[0].integer().value() <= 5000);
  CHECK((*replies)[1].integer() == 0);
  CHECK((*replies)[2].integer() == 0);
}

// Writes the backup `name` of `site` with these records of Redis, as the version with schema 2 did.
void write_old_backup(const BackupSite& site, const std::string& name,
                      const std::vector<DumpRecord>& records) {
  auto backup = BackupWriter::create(site.path(name));
  REQUIRE(backup);
  auto dump = DumpWriter::create(backup->file_path("redis.dump"));
  REQUIRE(dump);
  for (const DumpRecord& each : records) REQUIRE(dump->add(each));
  REQUIRE(dump->finish());
  std::string bytes = bytes_of(backup->file_path("redis.dump"));
  bytes[bytes.find('3')] = '2';  // "FRESHET REDIS 2"
  write_to(backup->file_path("redis.dump"), bytes);
  REQUIRE(backup->copy(site.path("freshet.db"), "freshet.db"));
  Manifest manifest;
  manifest.format = 2;
  manifest.version = "0.1.0";
  manifest.began = manifest.ended = wall_now();
  manifest.schema = 3;
  manifest.server = "Redis 7.0.15";
  manifest.keys = std::ssize(records);
  REQUIRE(backup->finish(manifest));
}

// Makes the database one of schema 3, then runs `statements`.
void downgrade(const BackupSite& site, const std::string& statements = {}) {
  std::string drop;
  for (const std::string name :
       {"author_id", "section", "language", "story", "text_format", "expires_at", "weight"})
    drop += "ALTER TABLE items DROP COLUMN " + name + ";";
  SqliteShell(site.path("freshet.db"))
      .run(drop + "DROP TABLE view_counts; DROP TABLE covisits; PRAGMA user_version = 3;" + statements);
}

using Members = std::vector<std::string>;
DumpRecord make_record(DumpRecord::Type type, const std::string& key, Members members,
                       const std::string& value = {}) {
  DumpRecord out;
  out.type = type;
  out.key = key;
  out.members = std::move(members);
  out.value = value;
  return out;
}

TEST_CASE("a backup of the previous schema is converted, and every count is kept", "[backup]") {
  using Type = DumpRecord::Type;
  const std::string nfd = "e\xCC\x81", nfc = "\xC3\xA9";  // é in two forms
  BackupSite from, to;
  const std::string now = std::to_string(unix_s(wall_now())), us = now + "000000";
  const std::string published = std::to_string(unix_s(make_item("", "").published_at));
  from.record([](database::Database& database) { REQUIRE(database.put_last_entry("", "1-1")); });
  std::vector<DumpRecord> records;
  Members ids{"a%b", "%7B", nfd, nfc};
  for (int i = 0; i < 30; ++i) ids.push_back("i" + std::to_string(i));
  std::string rows;
  const auto visitors = [&](const std::string& id) {
    redis::Pipeline count;
    count.add("DEL", "visitors").add("PFADD", "visitors", "u" + id, "v" + id).add("GET", "visitors");
    return std::string(from.redis_there.call(count)->back().text());
  };
  int number = 0;
  for (const std::string& id : ids) {
    const std::string pv = std::to_string(++number), ms = std::to_string(1000 * number);
    records.push_back(make_record(Type::kHash, "hot:article:{" + id + "}",
                                  {"pv",     pv,        "uv",    "2",    "ms",
                                   ms,       "renewed", now,     "v",    std::to_string(1000 + number),
                                   "total",  pv + ".5", "score", "0.25", "views",
                                   pv,       "viewed",  now,     "date", published,
                                   "hidden", "0",       "shown", pv}));
    records.push_back(make_record(Type::kString, "hot:uv:hll:{" + id + "}", {}, visitors(id)));
    records.push_back(make_record(Type::kHash, "item:{" + id + "}",
                                  {"rev", "1", "title", "Title of " + id, "published_at", published, "tags",
                                   "Swift news", "hidden", "0"}));
    rows += "INSERT INTO items (id, published_at, hidden, title, author, url, text) VALUES ('" + id + "', " +
            published + ", 0, 'Title of " + id + "', '', '', '');" +
            "INSERT INTO item_tags SELECT key, 0, 'Swift' FROM items WHERE id = '" + id + "';" +
            "INSERT INTO item_tags SELECT key, 1, 'news' FROM items WHERE id = '" + id + "';";
  }
  records.push_back(make_record(Type::kHash, "hot:article:{i1 invisible}",
                                {"pv", "1", "uv", "1", "ms", "5", "renewed", now, "v", "7"}));
  for (const char* tag : {"Swift", "news"})
    records.push_back(make_record(Type::kSet, "tag:" + std::string(tag), ids));
  records.push_back(make_record(Type::kSet, "tag:swift", {"i1"}));
  Members dated, hidden_free;
  for (const std::string& id : ids) dated.insert(dated.end(), {id, published});
  records.push_back(make_record(Type::kSortedSet, "hot:published", dated));
  records.push_back(make_record(Type::kSortedSet, "hot:newest", dated));
  records.push_back(make_record(Type::kHash, "hot:added:{u1}", {"network", "n", "a:" + nfd, "1 1 5 0 0 0"}));
  // A reader's.
  records.push_back(make_record(Type::kList, "user:views:topic:{" + nfd + "}", {nfd, "i1"}));
  records.push_back(make_record(Type::kHash, "user:views:at:{" + nfd + "}", {"t:" + nfd, now, "t:i1", now}));
  records.push_back(make_record(Type::kSortedSet, "user:interactions:{" + nfd + "}", {"l:" + nfd, now}));
  records.push_back(make_record(Type::kString, "user:earlier:{" + nfd + "}", {},
                                fmt::format("{:010x}{:010x}", fingerprint(nfd), fingerprint("i2"))));
  records.push_back(make_record(Type::kSortedSet, "user:not_interested:{" + nfd + "}", {nfd, now}));
  records.push_back(make_record(Type::kHash, "user:not_interested:why:{" + nfd + "}", {nfd, "seen: it"}));
  records.push_back(make_record(Type::kHash, "feed:state:{" + nfd + "}",
                                {"head", "5 1 7 0 0 0 ", "noted", "2", "0", "0=k 7 1 5 1 0 0 :" + nfd + " i1",
                                 "late", "0= 3 1 5 1 0 0 i2\n"}));
  records.push_back(make_record(Type::kSortedSet, "wf:follow:{" + nfd + "}",
                                {nfd, us, ":", "-" + us, "::", "-5", ":::", "-" + now}));
  records.push_back(make_record(Type::kSortedSet, "active:follow", {nfd, now}));
  records.push_back(make_record(Type::kSortedSet, "user:events:{" + nfd + "}",
                                {"view:e", now, "undo:" + nfd, now, "e", now}));
  // Follows of an author who was written in two ways.
  records.push_back(make_record(Type::kSortedSet, "follow:authors:{" + nfd + "}", {"Bob", "0", "Ann", "0"}));
  records.push_back(make_record(Type::kSortedSet, "follow:readers:{Bob}", {nfd, "20", ":", "-20"}));
  records.push_back(make_record(Type::kSortedSet, "follow:readers:{bob}", {"carl", "30", ":", "-30"}));
  records.push_back(make_record(Type::kSortedSet, "follow:authors:{carl}", {"bob", "0"}));
  records.push_back(make_record(Type::kSortedSet, "follow:readers:{Ann}", {nfd, "40", ":", "-40"}));
  records.push_back(make_record(Type::kSortedSet, "follow:outbox:{Bob}", {"i1", "9", ":", "-9"}));
  records.push_back(make_record(Type::kSortedSet, "follow:pulled", {"Bob", "9", "bob", "5"}));
  for (DumpRecord& each : records) {
    if (each.key.starts_with("user:") || each.key.starts_with("wf:") || each.key.starts_with("feed:") ||
        each.key.starts_with("hot:added") || each.key.starts_with("hot:uv:") ||
        each.key.ends_with(" invisible}"))
      each.expires_ms = 1000 * (unix_s(wall_now()) + 5000);
  }
  // Not yet recorded when the backup was made.
  const auto entry = [&](const std::string& id, Members fields) {
    fields.insert(fields.begin(), id);
    records.push_back(make_record(Type::kEntry, "recorder:stream", std::move(fields)));
  };
  entry("2-1", {"op", "put", "id", "i3", "title", "Title of i3", "published_at", published, "tags",
                "Swift news", "hidden", "0", "author", "Bob Lee"});
  entry("2-2", {"op", "interaction", "reader", nfd, "item", nfd, "kind", "l", "at", now});
  entry("2-3", {"op", "follow", "reader", "carl", "author", "bob", "at", now});
  downgrade(from,
            rows + "INSERT INTO readers VALUES (1, '" + nfd + "'), (2, '" + nfc + "'), (3, 'carl');" +
                "INSERT INTO interactions VALUES (1, 5, '" + nfd + "', 'l'), (2, 5, '" + nfc +
                "', 'l'), (2, 6, 'i1', 'l');" +
                "INSERT INTO follows VALUES (1, 'Bob', 5), (1, 'Ann', 5), (2, 'bob', 6), (3, 'bob', 7);");
  write_old_backup(from, "old", records);
  REQUIRE(to.restore(from.path("old")));

  const auto ask = [&](auto... words) {
    redis::Pipeline one;
    one.add(words...);
    return std::move(to.redis_there.call(one)->front());
  };
  const redis::Keys keys = to.keys();
  const auto members = [&](const std::string& key) {
    const auto type = keys.pattern_of(key)->type;
    const auto all = type == "set" ? ask("SMEMBERS", key) : ask("ZRANGE", key, 0, -1);
    std::set<std::string> out;
    for (std::size_t i = 0; i < all.size(); ++i) out.emplace(redis::string_at(all, i));
    return out;
  };
  // Counts. The two forms of é are one article now.
  number = 0;
  for (const std::string& id : ids) {
    ++number;
    INFO(id);
    const bool merged = id == nfd || id == nfc;  // the third and the fourth
    const std::string now_id = id == nfd ? nfc : id, article = keys.article(now_id);
    const std::int64_t count = merged ? 7 : number;
    for (const char* const field : {"pv", "views", "shown"})
      CHECK(ask("HGET", article, field).text() == std::to_string(count));
    CHECK(ask("HGET", article, "ms").text() == std::to_string(1000 * count));
    CHECK(ask("HGET", article, "uv").text() == (merged ? "4" : "2"));
    CHECK(ask("HGET", article, "total").number() == (merged ? 8.0 : number + 0.5));
    CHECK(ask("HGET", article, "score").number() == (merged ? 0.5 : 0.25));
    CHECK(ask("PFCOUNT", keys.uv_hll(now_id)).integer() == (merged ? 4 : 2));
    CHECK(ask("ZSCORE", keys.partition(0).rank(hot::kEngagementModel), now_id).number());
    CHECK(ask("HGET", keys.item(now_id), "tags").text() == "Swift\x1fnews");
  }
  CHECK_FALSE(ask("HGET", keys.article(hot::invisible_alias(ItemId::trusted("i1")).str()), "pv").is_nil());
  std::set<std::string> now_ids(ids.begin(), ids.end());
  now_ids.erase(nfd);
  for (const char* const tag : {"swift", "news"})
    CHECK(members(keys.partition(0).tagged_items(tag)) == now_ids);
  CHECK(ask("EXISTS", "tag:Swift").integer() == 0);
  CHECK(members(keys.partition(0).published()) == now_ids);
  CHECK(members(keys.partition(0).newest()) == now_ids);
  CHECK(ask("HGET", keys.contributions("u1"), "a:" + nfc).text() == "1 1 5 0 0 0");
  // The reader's.
  readers::RedisReaderStore readers(to.redis_there, to.write_queue, to.settings, keys, [] { return "e"; });
  const auto state = run_sync(readers.read(ReaderId::trusted(nfc)));
  REQUIRE(state);
  REQUIRE(state->topic_views.size() == 2);
  CHECK(state->topic_views[0].item.str() == nfc);
  CHECK(unix_s(state->topic_views[0].at) == std::stoll(now));
  CHECK(state->dismissals.front().item.str() == nfc);
  CHECK(ask("HGET", keys.not_interested_reasons(nfc), nfc).text() == "seen: it");
  REQUIRE(state->archived);
  CHECK(*state->archived == std::unordered_set<std::uint64_t>{fingerprint(nfc), fingerprint("i2")});
  CHECK(members(keys.interactions(nfc)) == std::set<std::string>{"l:" + nfc});
  CHECK(ask("HGET", keys.feed_state(nfc), "0").text() ==
        "0=k\x1f"
        "7\x1f"
        "1\x1f"
        "5\x1f"
        "1\x1f"
        "0\x1f"
        "0\x1f\x1e" +
            nfc + "\x1fi1");
  CHECK(ask("HGET", keys.feed_state(nfc), "late").text() ==
        "0=\x1f"
        "3\x1f"
        "1\x1f"
        "5\x1f"
        "1\x1f"
        "0\x1f"
        "0\x1fi2\n");
  CHECK(ask("HGET", keys.feed_state(nfc), "head").text() == "5 1 7 0 0 0 ");
  const std::string timeline = keys.timeline("follow", nfc);
  CHECK(ask("ZSCORE", timeline, nfc).text() == us);
  CHECK(ask("ZSCORE", timeline, redis::kHighestMark).text() == "-" + us);
  CHECK(ask("ZSCORE", timeline, redis::kTrimmedMark).text() == "-5");
  CHECK(members(keys.active_readers("follow")) == std::set<std::string>{nfc});
  CHECK(members(keys.reader_event_ids(nfc)) == std::set<std::string>{"\x1eview:e", "\x1eundo:" + nfc, "e"});
  // Follows: two authors became one, with the followers of both and the higher mark.
  CHECK(members(keys.followed_authors(nfc)) == std::set<std::string>{"ann", "bob"});
  CHECK(members(keys.followers("bob")) ==
        std::set<std::string>{nfc, "carl", std::string(redis::kHighestMark)});
  CHECK(ask("ZSCORE", keys.followers("bob"), redis::kHighestMark).number().value() <= -30);
  CHECK(ask("ZSCORE", keys.pull_authors(), "bob").number() == 9);
  CHECK(members(keys.outbox("bob")) == std::set<std::string>{"i1", std::string(redis::kHighestMark)});
  const auto database = to.database();
  CHECK(database->item_count() == std::ssize(now_ids));
  CHECK(database->readers().count_interactions() == 3);
  CHECK(database->readers().follows_of(ReaderId::trusted(nfc), 10)->size() == 2);
  CHECK(count_violations(to) == 0);
}

TEST_CASE("an item that was put and an article that was only viewed become one item", "[backup]") {
  using Type = DumpRecord::Type;
  const std::string nfd = "e\xCC\x81", nfc = "\xC3\xA9";
  const bool put_first = GENERATE(true, false);
  BackupSite from, to;
  const std::int64_t now = unix_s(wall_now()), published = now - 5000, first = published - 7200;
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  const std::string hour = text(published / 3600), earlier_hour = text(first / 3600);
  from.record([](database::Database& database) { REQUIRE(database.put_last_entry("", "1-1")); });
  downgrade(from, "INSERT INTO items (id, published_at, hidden, title, author, url, text) VALUES ('" + nfd +
                      "', " + text(published) + ", 0, 'Title', '', '', '');");
  DumpRecord put = make_record(Type::kHash, "hot:article:{" + nfd + "}",
                               {"pv",
                                "3",
                                "uv",
                                "2",
                                "ms",
                                "1000",
                                "renewed",
                                text(now - 90),
                                "v",
                                "7",
                                "total",
                                "3.5",
                                "score",
                                "0.5",
                                "views",
                                "3",
                                "viewed",
                                text(now - 50),
                                "date",
                                text(published),
                                "hidden",
                                "0",
                                "uv_correction",
                                "1"});
  DumpRecord viewed = make_record(Type::kHash, "hot:article:{" + nfc + "}",
                                  {"pv",
                                   "4",
                                   "uv",
                                   "3",
                                   "ms",
                                   "500",
                                   "renewed",
                                   text(now - 50),
                                   "v",
                                   "9",
                                   "total",
                                   "4.5",
                                   "score",
                                   "0.25",
                                   "views",
                                   "4",
                                   "viewed",
                                   text(now - 90),
                                   "first",
                                   text(first),
                                   "uv_correction",
                                   "1"});
  viewed.expires_ms = 1000 * (now + 5000);
  std::vector<DumpRecord> records{put_first ? put : viewed, put_first ? viewed : put};
  records.push_back(
      make_record(Type::kHash, "item:{" + nfd + "}",
                  {"rev", "1", "title", "Title", "published_at", text(published), "hidden", "0"}));
  records.push_back(make_record(Type::kSortedSet, "hot:score", {nfd, "0.5", nfc, "0.25"}));
  records.push_back(make_record(Type::kSortedSet, "hot:published", {nfd, text(published), nfc, text(first)}));
  for (const auto& [bucket, id, total] :
       {std::tuple{hour, nfd, "3.5"}, std::tuple{earlier_hour, nfc, "4.5"}}) {
    records.push_back(make_record(Type::kSortedSet, "hot:current:" + bucket, {id, total}));
    records.back().expires_ms = 1000 * (now + 5000);
  }
  records.push_back(make_record(Type::kSortedSet, "hot:current:index", {hour, "3.5", earlier_hour, "4.5"}));
  write_old_backup(from, "old", records);
  REQUIRE(to.restore(from.path("old")));
  const auto ask = [&](auto... words) {
    redis::Pipeline one;
    one.add(words...);
    return std::move(to.redis_there.call(one)->front());
  };
  const std::string article = to.keys().article(nfc);
  const auto field = [&](const char* name) { return std::string(ask("HGET", article, name).text()); };
  CHECK(ask("TTL", article).integer() == -1);
  CHECK(ask("TTL", to.keys().item(nfc)).integer() == -1);
  CHECK(field("pv") == "7");
  CHECK(field("renewed") == text(now - 50));
  CHECK(field("viewed") == text(now - 50));
  CHECK(field("uv_correction") == "2");
  CHECK(field("date") == text(published));
  CHECK(field("first").empty());
  const redis::PartitionKeys partition = to.keys().partition(0);
  CHECK(ask("ZSCORE", partition.rank(hot::kViewsModel), nfc).number() == 0.75);
  CHECK(ask("ZSCORE", partition.published(), nfc).number() == published);
  CHECK(ask("ZSCORE", partition.current_bucket(published / 3600), nfc).number() == 8);
  CHECK(ask("EXISTS", partition.current_bucket(first / 3600)).integer() == 0);
  CHECK(ask("ZSCORE", partition.current_bucket_index(), hour).number() == 8);
  CHECK(ask("ZCARD", partition.current_bucket_index()).integer() == 1);
  CHECK(count_violations(to) == 0);
}

TEST_CASE("a backup of the previous schema replaces the data of that schema, without readers erased since",
          "[backup]") {
  using Type = DumpRecord::Type;
  const std::string accent = "e\xCC\x81";  // not in Normalization Form C, as schema 2 allowed
  const std::vector<std::string> erased{"gone", "row" + accent, "key" + accent, "member" + accent};
  BackupSite site, other;
  const std::string now = std::to_string(unix_s(wall_now()));
  for (BackupSite* each : {&site, &other}) {
    each->record([](database::Database& database) { REQUIRE(database.put_last_entry("", "1-1")); });
    downgrade(*each, "INSERT INTO readers VALUES (1, 'row" + accent + "'), (2, 'stays');" +
                         "INSERT INTO interactions VALUES (1, " + now + ", 'i1', 'l'), (2, " + now +
                         ", 'i1', 'l');");
    std::vector<DumpRecord> records{make_record(Type::kSortedSet, "active:follow", {"stays", now})};
    records.front().members.insert(records.front().members.end(), {"member" + accent, now});
    for (const std::string& reader : {erased[0], erased[2]}) {
      records.push_back(make_record(Type::kSortedSet, "user:interactions:{" + reader + "}", {"l:i1", now}));
      records.back().expires_ms = 1000 * (unix_s(wall_now()) + 5000);
    }
    write_old_backup(*each, "old", records);
  }
  // The previous version erases them after the backup.
  auto identity = http::Identity::create(http::IdentityMode::kHeader, kSalt);
  REQUIRE(identity);
  for (const std::string& each : erased)
    SqliteShell(site.path("freshet.db"))
        .run("INSERT INTO meta VALUES ('erased:" + identity->erasure_pseudonym(ReaderId::trusted(each)) +
             "', '" + std::to_string(unix_s(wall_now())) + "')");
  redis::Pipeline old_data;
  old_data.add("HSET", site.keys().rank_meta(), "schema", 2);
  REQUIRE(site.redis_there.call(old_data));
  const auto refused = site.restore(site.path("old"));
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "schema_mismatch");
  // Refusing the backup of another database changes nothing, so the previous version can still run.
  CHECK(site.restore(other.path("old"), true, {}, false) == kExitUnknownErasures);
  const auto current = database::verify_database(site.path("freshet.db"));
  REQUIRE(current);
  CHECK(current->schema_version == 3);
  CHECK_FALSE(fs::exists(site.path("freshet.db.restoring")));

  REQUIRE(site.restore(site.path("old"), true, {}, false) == 0);
  std::string all;
  for (const auto& [key, value] : site.key_contents()) all += key + " " + value + "\n";
  for (const char* const each : {"gone", "row", "key\xC3\xA9", "key%", "member"}) {
    INFO(each);
    CHECK(all.find(each) == std::string::npos);
  }
  CHECK(all.find("stays|") != std::string::npos);
  CHECK(site.database()->readers().count_interactions() == 1);
  CHECK(count_violations(site) == 0);
}

TEST_CASE("ids that became one are reported by the restore", "[backup]") {
  using Type = DumpRecord::Type;
  BackupSite from, to;
  from.record([](database::Database& database) { REQUIRE(database.put_last_entry("", "1-1")); });
  downgrade(from);
  const std::string nfd = "e\xCC\x81", nfc = "\xC3\xA9";
  std::vector<DumpRecord> records;
  for (const std::string& id : {nfd, nfc, "o\xCC\x88" + std::string()})
    records.push_back(make_record(Type::kSortedSet, "user:not_interested:{" + id + "}", {"i1", "5"}));
  for (const std::string tag : {"tag:A", "tag:a"}) records.push_back(make_record(Type::kSet, tag, {"i1"}));
  write_old_backup(from, "old", records);
  DumpConverter converter(to.settings.redis);
  REQUIRE(converter.prepare(from.path("old/redis.dump")));
  CHECK(converter.merged_ids() == std::set<std::pair<std::string, std::string>>{{nfd, nfc}});
  REQUIRE(to.restore(from.path("old")));
}

TEST_CASE("in a cluster a converted backup has each article's members in the article's partition",
          "[backup]") {
  using Type = DumpRecord::Type;
  RedisSettings settings;
  settings.url = "redis+cluster://127.0.0.1:7000";
  const redis::Keys keys(settings);
  REQUIRE(keys.in_cluster());
  const std::string changed = "a%b", same = "ab";
  // Schema 2 chose the partition by the id as it is.
  const auto partition = [&](const std::string& id) {
    return keys.partition(redis::slot_of(id) * keys.partition_count() / redis::kSlots);
  };
  REQUIRE(partition(changed).hash_tag() != keys.partition_for(changed).hash_tag());
  DumpConverter converter(settings);
  std::map<std::string, Members> found;
  for (const std::string& id : {changed, same}) {
    for (DumpRecord& each :
         converter.convert(make_record(Type::kSortedSet, partition(id).hidden(), {id, "5"})))
      found[each.key] = each.members;
    for (DumpRecord& each :
         converter.convert(make_record(Type::kHash, "hot:article:{" + id + "}", {"pv", "1"})))
      found[each.key] = each.members;
  }
  CHECK(found == std::map<std::string, Members>{{keys.partition_for(changed).hidden(), {changed, "5"}},
                                                {keys.partition_for(same).hidden(), {same, "5"}},
                                                {keys.article(changed), {"pv", "1"}},
                                                {keys.article(same), {"pv", "1"}}});
}

TEST_CASE("the index of a converted backup's buckets is rebuilt, since articles may change partitions",
          "[backup]") {
  const DumpConverter converter{RedisSettings()};
  for (const char* const key : {"hot:current:index", "hot:current:489000", "hot:score"})
    CHECK(converter.convert(make_record(DumpRecord::Type::kSortedSet, key, {"1", "2"})).empty());
}

TEST_CASE("a backup leaves out anonymous readers, and their erasures outlive a restore", "[backup]") {
  BackupSite site;
  populate(site);
  const std::string cookie = "c0123456789abcdefghijAB", account = "u0123456789abcdefghijAB";
  const std::string reader = anonymous_reader(VisitorId::trusted(cookie)).str();
  const redis::Keys& keys = site.keys();
  const std::vector<std::string> anonymous{keys.view_history(readers::ViewKind::kTopic, reader),
                                           keys.timeline("discover", reader), keys.contributions(cookie)};
  const std::string epoch = keys.seen_epoch("hash"), tombstone = keys.tombstone("hash");
  redis::Pipeline write;
  write.add("RPUSH", anonymous[0], "i1").add("ZADD", anonymous[1], 5, "i1");
  write.add("HSET", anonymous[2], "a:i1", "1 1 5 0 0 0");
  write.add("HSET", keys.contributions(account), "a:i1", "1 1 5 0 0 0").add("SET", epoch, 1);
  for (const std::string& each : anonymous) write.add("EXPIRE", each, 5000);
  write.add("EXPIRE", keys.contributions(account), 5000).add("EXPIRE", epoch, 5000);
  REQUIRE(site.redis_there.call(write));
  REQUIRE(site.back_up());
  redis::Pipeline erase;
  for (const std::string& each : anonymous) erase.add("DEL", each);
  erase.add("INCR", epoch).add("SET", tombstone, 7, "EX", 5000);
  REQUIRE(site.redis_there.call(erase));
  REQUIRE(site.restore(site.path("backup"), true));
  const auto restored = site.key_contents();
  for (const std::string& each : anonymous) {
    INFO(each);
    CHECK_FALSE(restored.contains(each));
  }
  CHECK(restored.contains(keys.contributions(account)));
  CHECK(restored.at(epoch) == "2 for a time");
  CHECK(restored.at(tombstone) == "7 for a time");
}

TEST_CASE("a backup made of DUMP's payloads is refused, with what to do", "[backup]") {
  BackupSite from, to;
  populate(from);
  REQUIRE(from.back_up());
  std::string text = bytes_of(from.path("backup/manifest.json"));
  text.replace(text.find("\"format\":3"), 10, "\"format\":1");
  write_to(from.path("backup/manifest.json"), text);
  REQUIRE(std::system(
              ("cd " + from.path("backup") + " && sha256sum manifest.json >manifest.sha256").c_str()) == 0);
  const auto refused = to.restore(from.path("backup"));
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "bad_backup");
  CHECK(error_of(refused).detail.find("make a backup with the last version before this one") !=
        std::string::npos);
}

TEST_CASE("a backup that the server cannot load is refused before anything is deleted", "[backup]") {
  BackupSite from, to;
  populate(from);
  populate(to);
  // A value that no server takes.
  const std::vector<DumpRecord> records{
      make_record(DumpRecord::Type::kSortedSet, "user:not_interested:{r}", {"i1", "no number"})};
  downgrade(from);
  write_old_backup(from, "bad", records);
  redis::Pipeline mark;
  mark.add("SET", to.keys().job("mark"), "kept").add("EXPIRE", to.keys().job("mark"), 5000);
  REQUIRE(to.redis_there.call(mark));
  const auto keys = to.key_contents();
  const std::string database = bytes_of(to.path("freshet.db"));
  const auto refused = to.restore(from.path("bad"), true);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "backup_not_loadable");
  INFO(error_of(refused).detail);
  redis::Pipeline info;
  info.add("INFO", "server");
  const std::string server = redis::server_name(to.redis_there.call(info)->front().text());
  CHECK(error_of(refused).detail.starts_with(server + " cannot load this backup of Redis 7.0.15: "));
  CHECK(error_of(refused).detail.find("Nothing was deleted") != std::string::npos);
  CHECK(to.key_contents() == keys);
  CHECK(bytes_of(to.path("freshet.db")) == database);
  CHECK_FALSE(fs::exists(to.path("freshet.db.restoring")));
}

TEST_CASE("a backup that needs more than maxmemory is refused before anything is deleted", "[backup]") {
  BackupSite from, to;
  populate(from);
  populate(to);
  redis::Pipeline fill;
  for (int i = 0; i < 10; ++i)
    fill.add("HSET", from.keys().contributions("visitor"), i, std::string(std::size_t{1} << 20, 'x'));
  REQUIRE(from.redis_there.call(fill));
  REQUIRE(from.back_up());
  const auto keys = to.key_contents();
  const std::string database = bytes_of(to.path("freshet.db"));
  const auto limit_to = [&](std::uintmax_t bytes) {
    redis::Pipeline limit;
    limit.add("CONFIG", "SET", "maxmemory", std::to_string(bytes));
    REQUIRE(to.redis_there.call(limit)->front().string() == "OK");
  };
  const auto size = fs::file_size(from.path("backup/redis.dump"));
  limit_to(size / 2 - 1);
  const auto refused = to.restore(from.path("backup"), true);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "maxmemory_too_small");
  INFO(error_of(refused).detail);
  for (const std::uintmax_t number : {size, size / 2 - 1})
    CHECK(error_of(refused).detail.find(fmt::format(" {} bytes", number)) != std::string::npos);
  CHECK(error_of(refused).detail.ends_with("Nothing was changed"));
  CHECK(to.key_contents() == keys);
  CHECK(bytes_of(to.path("freshet.db")) == database);
  CHECK_FALSE(fs::exists(to.path("freshet.db.restoring")));
  limit_to(10 * size);
  CHECK(to.restore(from.path("backup"), true));
}

// The commands of an account in the shipped file.
std::vector<std::string> shipped_commands(const std::string& account) {
  std::ifstream file(std::string(FRESHET_SOURCE_DIR) + "/systemd/redis-acl.conf");
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("user " + account + " ")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word.starts_with('+')) out.push_back(word.substr(1));
    }
  }
  REQUIRE(out.size() > 50);
  return out;
}

TEST_CASE("a restore with an account that lacks a right is refused before anything is changed", "[backup]") {
  BackupSite from,
      to(redis_program(), {"--include", std::string(FRESHET_SOURCE_DIR) + "/systemd/redis-acl.conf"});
  populate(from);
  populate(to);
  REQUIRE(from.back_up());
  const auto set_account = [&](const std::string& name, const std::string& change) {
    redis::Pipeline one;
    one.add("ACL", "SETUSER", name, change);
    REQUIRE_FALSE(to.redis_there.call(one)->front().is_error());
  };
  write_to(to.path("password"), "secret");
  const std::string service = "freshet", operator_account = "freshet-operator";
  for (const std::string& each : {service, operator_account}) set_account(each, ">secret");
  auto keys = to.key_contents();
  std::string database = bytes_of(to.path("freshet.db"));
  const auto is_unchanged = [&] {
    return to.key_contents() == keys && bytes_of(to.path("freshet.db")) == database &&
           !fs::exists(to.path("freshet.db.restoring"));
  };
  to.target.redis_user = service + ":" + to.path("password");
  const auto refused = to.restore(from.path("backup"), true);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).reason == "account_lacks_rights");
  INFO(error_of(refused).detail);
  CHECK(error_of(refused).detail.starts_with("Redis at " + redis::to_string(to.own_server.endpoint())));
  for (const char* const text :
       {"the account freshet lacks", "PEXPIREAT", "--redis-user", "Nothing was changed"})
    CHECK(error_of(refused).detail.find(text) != std::string::npos);
  CHECK(is_unchanged());
  // Each right of the operator's account is missed before the old data is deleted, or not at all.
  to.target.redis_user = operator_account + ":" + to.path("password");
  std::size_t refusals = 0;
  for (const std::string& command : shipped_commands(operator_account)) {
    INFO(command);
    set_account(operator_account, "-" + command);
    if (to.restore(from.path("backup"), true)) {
      keys = to.key_contents();
      database = bytes_of(to.path("freshet.db"));
    } else {
      ++refusals;
      REQUIRE(is_unchanged());
    }
    set_account(operator_account, "+" + command);
  }
  CHECK(refusals > 50);
  CHECK(count_violations(to) == 0);
}

// This host's Redis server and those of Debian 13. Empty, with a warning, if they cannot be
// unpacked.
std::vector<std::string> all_servers(const std::string& folder) {
  std::vector<std::string> out{"redis-server"};
  const std::string unpack =
      std::string(FRESHET_SOURCE_DIR) + "/tests/support/debian_servers trixie " + folder;
  if (std::system(unpack.c_str()) != 0) {
    WARN("SKIPPED: the servers of Debian 13 need root and a network");
    return {};
  }
  for (const char* const each : {"/redis-server", "/valkey-server"}) out.push_back(folder + each);
  return out;
}

TEST_CASE("a backup of each server is restored into each other", "[.][backup][long]") {
  const TemporaryDirectory folder;
  const auto servers = all_servers(folder.path().string());
  for (const std::string& source : servers) {
    BackupSite from(source);
    populate(from);
    items::RedisItemStore items(from.redis_there, from.settings, from.keys());
    REQUIRE(run_sync(items.put(make_item("new", "not yet recorded"))));
    REQUIRE(from.back_up());
    const auto before = from.key_contents();
    for (const std::string& target : servers) {
      INFO(source << " to " << target);
      BackupSite to(target);
      populate(to);
      REQUIRE(to.restore(from.path("backup"), true));
      auto after = to.key_contents();
      for (const auto& [key, value] : before) {
        if (key == from.keys().partition(0).stream()) continue;  // recorded by the restore
        INFO(key);
        CHECK(after[key] == value);
      }
      CHECK(to.database()->item_count() == 51);
      CHECK(count_violations(to) == 0);
    }
  }
}

// Like a service whose recorder has not yet read its entries: a new title, views, and an erasure.
void add_pending(BackupSite& site, const std::string& title) {
  items::RedisItemStore items(site.redis_there, site.settings, site.keys());
  REQUIRE(run_sync(items.put(make_item("i1", title))));
  ImmediateWriteQueue later(site.redis_there);
  DeferredWork work(later, site.settings, site.keys());
  hot::RedisHotStore hot(site.redis_there, work.writers, site.settings, site.keys(), [&] { return title; });
  REQUIRE(run_sync(hot.view(Fixture::view_event("i3", title))));
  work.flush();
  redis::Pipeline job;
  job.add("XADD", site.keys().partition_for("gone").stream(), "*", "op", "erase", "reader", "gone", "job",
          title);
  REQUIRE_FALSE(site.redis_there.call(job)->front().is_error());
}

// The jobs that wait in the streams, all of which are erasures of one reader.
std::vector<std::string> pending_jobs(BackupSite& site) {
  std::vector<std::string> out;
  redis::Pipeline read;
  for (const redis::PartitionKeys& each : site.keys().partitions())
    read.add("XRANGE", each.stream(), "-", "+");
  const auto replies = site.redis_there.call(read);
  REQUIRE(replies);
  for (unsigned number = 0; number < replies->size(); ++number) {
    const redis::Reply& entries = (*replies)[number];
    for (std::size_t i = 0; i < entries.size(); ++i) {
      CHECK(number == site.keys().partition_of("gone"));
      CHECK(redis::field_value(entries[i][1], "reader") == "gone");
      out.emplace_back(redis::field_value(entries[i][1], "job"));
    }
  }
  return out;
}

TEST_CASE("a backup is restored into another number of partitions, from one Redis to a cluster and back",
          "[backup]") {
  RedisCluster cluster;
  BackupSite from, in_16(cluster);
  populate(from);
  items::RedisItemStore items(from.redis_there, from.settings, from.keys(),
                              items::RedisItemStore::StreamPolicy::kSkip);
  items::Item hidden = make_item("i5", "about 5");
  hidden.hidden = true;
  REQUIRE(run_sync(items.put(hidden)));
  from.record([&](database::Database& database) { REQUIRE(database.put_item(hidden)); });
  add_pending(from, "first");
  REQUIRE(from.back_up());
  auto before = from.key_contents();
  const auto verify = [](BackupSite& site, const std::string& title, std::int64_t views,
                         const Members& jobs) {
    CHECK(count_violations(site) == 0);
    CHECK(run_sync(redis::check_schema(site.redis_there, site.keys())));
    items::RedisItemStore restored(site.redis_there, site.settings, site.keys());
    CHECK(run_sync(restored.get(ItemId::trusted("i1")))->title == title);
    CHECK(site.database()->item_count() == 50);
    REQUIRE(site.database()->for_each_item([&](const items::Item& each) {
      if (each.id.view() == "i1") CHECK(each.title == title);
      return Result<void>();
    }));
    const auto history = tuning::read_view_history(site.settings.recorder.database, wall_now(), seconds(0));
    REQUIRE(history);
    std::int64_t counted = 0;
    for (const auto& each : history->counts) counted += each.views;
    CHECK(counted == 17 + views);
    CHECK(pending_jobs(site) == jobs);
    redis::Pipeline sizes;
    for (const redis::PartitionKeys& each : site.keys().partitions())
      sizes.add("ZCARD", each.newest()).add("ZCARD", each.hidden()).add("SCARD", each.tagged_items("swift"));
    const auto replies = site.redis_there.call(sizes);
    REQUIRE(replies);
    std::array<std::int64_t, 3> sums{};
    for (std::size_t i = 0; i < replies->size(); ++i) sums[i % 3] += (*replies)[i].integer().value();
    CHECK(sums == std::array<std::int64_t, 3>{49, 1, 50});
  };
  REQUIRE(in_16.restore(from.path("backup")));
  verify(in_16, "first", 1, {"first"});
  for (int node = 0; node < cluster.size(); ++node) {
    const redis::Reply names = cluster.call(node, {"KEYS", "*"});
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string key(redis::string_at(names, i));
      INFO(key);
      // Only keys of no article are named as on a single Redis.
      const bool is_of_readers = key.starts_with("active:") || key.starts_with("follow:") ||
                                 key.starts_with("job:") || key == in_16.keys().spools_empty_at();
      CHECK((key.find('{') != key.npos || is_of_readers));
    }
  }
  add_pending(in_16, "second");
  REQUIRE(in_16.back_up());
  const std::string backup = in_16.path("backup");
  BackupSite in_4(cluster, 4);
  CHECK_FALSE(in_4.restore(backup));
  REQUIRE(in_4.restore(backup, true));
  CHECK_FALSE(run_sync(redis::check_schema(in_16.redis_there, in_16.keys())));
  verify(in_4, "second", 2, {"first", "second"});
  // Deletes keys of a cluster that an earlier version restored here.
  BackupSite to;
  populate(to);
  redis::Pipeline leftover;
  leftover.add("ZADD", in_16.keys().partition(3).rank(hot::kViewsModel), 1, "i1");
  REQUIRE(to.redis_there.call(leftover));
  REQUIRE(to.restore(backup, true));
  verify(to, "second", 2, {"first", "second"});
  auto after = to.key_contents();
  const redis::PartitionKeys shared = to.keys().partition(0);
  const std::set<std::string> changed{shared.stream(), to.keys().epoch(), to.keys().item("i1"),
                                      to.keys().article("i1")};  // by add_pending()
  for (const auto& [key, value] : before) {
    const bool is_rank = key == shared.rank(hot::kEngagementModel) || key == shared.rank(hot::kViewsModel) ||
                         key.starts_with("hot:current:");
    if (is_rank || changed.contains(key) || key.find("{i3}") != key.npos) continue;
    INFO(key);
    CHECK(after[key] == value);
  }
}

TEST_CASE("deleting what a restore replaces keeps services from starting", "[backup]") {
  RedisCluster cluster;
  BackupSite site(cluster), in_4(cluster, 4);
  populate(site);
  for (const BackupSite* const each : {&site, &in_4, &in_4}) {
    REQUIRE(mark_restoring(site.redis_there, each->settings.redis));
    REQUIRE(remove_keys(site.redis_there, each->settings.redis));
    const auto check = [&](BackupSite& service) {
      return error_of(run_sync(redis::check_schema(site.redis_there, service.keys()))).reason;
    };
    CHECK(check(site) == (each == &site ? "restore_interrupted" : "partitions_mismatch"));
    CHECK(check(in_4) == (each == &site ? "partitions_mismatch" : "restore_interrupted"));
    CHECK(has_keys(site.redis_there, each->settings.redis) == true);  // only --replace repeats it
    std::size_t keys = 0;
    for (int node = 0; node < cluster.size(); ++node) keys += cluster.call(node, {"KEYS", "*"}).size();
    CHECK(keys == each->partitions + 1);
  }
}

TEST_CASE("a filter of RedisBloom is saved and restored in chunks", "[backup]") {
  const char* const module = std::getenv("FRESHET_REDISBLOOM");
  if (module == nullptr || *module == '\0') {
    WARN("SKIPPED: FRESHET_REDISBLOOM names no module file (redisbloom.so)");
    return;
  }
  BackupSite from(redis_program(), {"--loadmodule", module}), to(redis_program(), {"--loadmodule", module}),
      without;
  populate(from);
  populate(without);
  const std::string filter = from.keys().seen_day("20260306");
  redis::Pipeline fill;
  fill.add("BF.RESERVE", filter, 0.01, 100).add("EXPIRE", filter, 5000);
  for (int i = 0; i < 1000; ++i) fill.add("BF.ADD", filter, "member" + std::to_string(i));
  REQUIRE(from.redis_there.call(fill));
  REQUIRE(from.back_up());
  REQUIRE(to.restore(from.path("backup")));
  redis::Pipeline look;
  for (int i = 0; i < 1000; ++i) look.add("BF.EXISTS", filter, "member" + std::to_string(i));
  look.add("BF.EXISTS", filter, "other").add("TTL", filter);
  const auto replies = to.redis_there.call(look);
  REQUIRE(replies);
  for (std::size_t i = 0; i < 1000; ++i) CHECK((*replies)[i].integer() == 1);
  CHECK((*replies)[1000].integer() == 0);
  CHECK((*replies)[1001].integer().value() > 4000);
  const auto refused = without.restore(from.path("backup"), true);
  REQUIRE_FALSE(refused);
  CHECK(error_of(refused).detail.find("BF.LOADCHUNK") != std::string::npos);
  CHECK(without.database()->item_count() == 50);
}

TEST_CASE("large keys are saved and restored in pieces", "[backup]") {
  BackupSite from, to;
  populate(from);
  redis::Pipeline fill;
  const std::string active = from.keys().active_readers("discover"),
                    tag = from.keys().partition(0).tagged_items("large"),
                    added = from.keys().contributions("visitor");
  for (int i = 0; i < 25000; ++i) {
    const std::string number = std::to_string(i);
    fill.add("ZADD", active, 0.1 + i, "reader" + number).add("SADD", tag, "i" + number);
    fill.add("HSET", added, "i" + number, number);
  }
  REQUIRE(from.redis_there.call(fill));
  REQUIRE(from.back_up());
  REQUIRE(to.restore(from.path("backup")));
  auto before = from.key_contents(), after = to.key_contents();
  CHECK(before[active].size() > 25000);
  CHECK(after[active] == before[active]);
  CHECK(after[tag] == before[tag]);
  CHECK(after[added] == before[added]);
}

TEST_CASE("a key with a name of ours and another type is not saved", "[backup]") {
  BackupSite from, to;
  populate(from);
  redis::Pipeline wrong;
  const std::vector<std::string> keys{from.keys().article("wrong"), from.keys().item("wrong"),
                                      from.keys().partition(0).tagged_items("wrong")};
  for (const std::string& each : keys) wrong.add("SET", each, "a string");
  REQUIRE(from.redis_there.call(wrong));
  REQUIRE(from.back_up());
  REQUIRE(to.restore(from.path("backup")));
  const auto after = to.key_contents();
  for (const std::string& each : keys) CHECK_FALSE(after.contains(each));
  CHECK(to.database()->item_count() == 50);
}

TEST_CASE("foreign keys with the same prefix are not saved or deleted", "[backup]") {
  BackupSite from, to;
  populate(from);
  redis::Pipeline foreign;
  foreign.add("SET", "foreign:key", "secret");
  REQUIRE(from.redis_there.call(foreign));
  REQUIRE(from.back_up());
  CHECK(bytes_of(from.path("backup/redis.dump")).find("foreign:key") == std::string::npos);
  foreign.clear();
  foreign.add("SET", "foreign:key", "kept");
  REQUIRE(to.redis_there.call(foreign));
  REQUIRE(to.restore(from.path("backup"), true));
  foreign.clear();
  foreign.add("GET", "foreign:key");
  CHECK(to.redis_there.call(foreign)->front().string() == "kept");
}

TEST_CASE("a restore reconciles Redis and a database saved at different times", "[backup]") {
  BackupSite from, to;
  populate(from);
  items::RedisItemStore items(from.redis_there, from.settings, from.keys());
  // In the stream and not yet recorded: a new item, a new title, a removal.
  REQUIRE(run_sync(items.put(make_item("new", "not yet recorded"))));
  REQUIRE(run_sync(items.put(make_item("i1", "a later title"))));
  REQUIRE(run_sync(items.remove(ItemId::trusted("i2"))));
  // Recorded after Redis was saved: a new item that Redis does not have, and a removal.
  from.record([](database::Database& database) {
    REQUIRE(database.put_item(make_item("later", "recorded later")));
    REQUIRE(database.remove_item(ItemId::trusted("i3")));
    REQUIRE(database.readers().remove_follow(ReaderId::trusted("r0"), AuthorId::trusted("ann")));
    REQUIRE(database.put_last_entry("", "99999999999999-7"));
  });
  redis::Pipeline half;  // saved between the two sides of an unfollow
  half.add("ZREM", from.keys().followers("ann"), "r0");
  REQUIRE(from.redis_there.call(half));
  REQUIRE(from.back_up());
  REQUIRE(to.restore(from.path("backup")));
  items::RedisItemStore restored(to.redis_there, to.settings, to.keys());
  const auto title = [&](const std::string& id) {
    const auto item = run_sync(restored.get(ItemId::trusted(id)));
    return item ? item->title : std::string(item.error().reason);
  };
  CHECK(title("new") == "not yet recorded");
  CHECK(title("i1") == "a later title");
  CHECK(title("i2") == "unknown_item");
  CHECK(title("i3") == "unknown_item");
  CHECK(title("later") == "recorded later");
  CHECK(to.database()->item_count() == 50);  // 50 items, 2 removed, 2 added
  redis::Pipeline look;
  look.add("ZSCORE", to.keys().followed_authors("r0"), "ann")
      .add("ZSCORE", to.keys().followed_authors("r1"), "ann");
  look.add("XINFO", "STREAM", to.keys().partition(0).stream()).add("XLEN", to.keys().partition(0).stream());
  const auto replies = to.redis_there.call(look);
  REQUIRE(replies);
  CHECK((*replies)[0].is_nil());
  CHECK_FALSE((*replies)[1].is_nil());
  std::string last;
  for (std::size_t i = 0; i + 1 < (*replies)[2].size(); i += 2) {
    if (redis::string_at((*replies)[2], i) == "last-generated-id")
      last = redis::string_at((*replies)[2], i + 1);
  }
  CHECK(last == "99999999999999-7");
  CHECK((*replies)[3].integer() == 0);
  CHECK(count_violations(to) == 0);
}

TEST_CASE("readers erased after the backup are erased again, as recorded by the replaced database",
          "[backup]") {
  BackupSite from;
  populate(from);
  auto identity = http::Identity::create(http::IdentityMode::kHeader, kSalt);
  REQUIRE(identity);
  const readers::ReaderPseudonyms hashes = reader_hashes(*identity);
  // Two readers are in the database, one is known by a key only.
  redis::Pipeline extra;
  extra.add("ZADD", from.keys().interactions("onlykey"), 5, "l:i1")
      .add("EXPIRE", from.keys().interactions("onlykey"), 5000);
  REQUIRE(from.redis_there.call(extra));
  from.record([&](database::Database& database) {
    REQUIRE(
        // before the backup
        database.put_erasure(hashes.erasure(ReaderId::trusted("r3")), wall_now() - seconds(3600)));
  });
  REQUIRE(from.back_up());
  const bool by_file = GENERATE(false, true);
  if (by_file) {
    write_to(from.path("erased"), "r1\nonlykey\n");
  } else {
    from.record([&](database::Database& database) {
      for (const char* const each : {"r1", "onlykey"})
        REQUIRE(database.put_erasure(hashes.erasure(ReaderId::trusted(each)), wall_now()));
    });
  }
  REQUIRE(from.restore(from.path("backup"), true, by_file ? from.path("erased") : ""));
  const auto keys = from.key_contents();
  std::string all;
  for (const auto& [key, value] : keys) all += key + " " + value + "\n";
  CHECK(all.find("r1|") == std::string::npos);
  CHECK(all.find("onlykey") == std::string::npos);
  CHECK(all.find("r2|") != std::string::npos);
  CHECK(keys.contains(from.keys().seen_epoch(hashes.erasure(ReaderId::trusted("r1")))));
  const auto database = from.database();
  CHECK(database->readers().follows_of(ReaderId::trusted("r1"), 10)->empty());
  CHECK(database->readers().follows_of(ReaderId::trusted("r3"), 10)->size() == 1);
  // Under each of their pseudonyms.
  CHECK(database->erasures_since(wall_now() - seconds(60))->size() ==
        hashes.all(ReaderId::trusted("r1")).size() + hashes.all(ReaderId::trusted("onlykey")).size());
}

TEST_CASE("an erasure survives restores of backups that were made before it, in any order", "[backup]") {
  BackupSite site;
  populate(site);
  auto identity = http::Identity::create(http::IdentityMode::kHeader, kSalt);
  REQUIRE(identity);
  const readers::ReaderPseudonyms hashes = reader_hashes(*identity);
  const ReaderId erased = ReaderId::trusted("erased");
  const std::string key = site.keys().interactions(erased.view());
  const std::string tombstone = site.keys().tombstone(hashes.erasure(erased));
  redis::Pipeline add, remove, expire;
  add.add("ZADD", key, 5, "l:i1").add("EXPIRE", key, 5000);
  remove.add("DEL", key);
  expire.add("DEL", tombstone);
  REQUIRE(site.redis_there.call(add));
  REQUIRE(site.back_up("with"));
  // The second backup no longer has the reader, so its restore finds nothing to erase.
  REQUIRE(site.redis_there.call(remove));
  REQUIRE(site.back_up("without"));
  // Recorded, with a right clock or one that is behind; or accepted, but not recorded yet.
  const int how = GENERATE(0, 1, 2);
  if (how < 2) {
    site.record([&](database::Database& database) {
      REQUIRE(database.put_erasure(hashes.erasure(erased), wall_now() - how * seconds{7200}));
    });
  } else {
    redis::Pipeline accept;
    accept.add("SET", tombstone, unix_s(wall_now()), "EX", 5000);
    REQUIRE(site.redis_there.call(accept));
  }
  for (const char* const folder : {"without", "with"}) {
    REQUIRE(site.restore(site.path(folder), true, {}, false) == 0);
    REQUIRE(site.redis_there.call(expire));
  }
  CHECK_FALSE(site.key_contents().contains(key));
}

TEST_CASE("readers who were merged into an erased account are erased from an older backup", "[backup]") {
  BackupSite site;
  populate(site);
  auto identity = http::Identity::create(http::IdentityMode::kHeader, kSalt);
  REQUIRE(identity);
  const readers::ReaderPseudonyms hashes = reader_hashes(*identity);
  const auto hash = [&](const std::string& reader) { return hashes.erasure(ReaderId::trusted(reader)); };
  const UnixSeconds lately = wall_now() - seconds{86400};
  // r4 was merged into the account before the backup, and has followed again since.
  site.record([&](database::Database& database) {
    REQUIRE(database.put_merge({hash("r4"), hash("account"), lately}));
  });
  REQUIRE(site.back_up());
  site.record([&](database::Database& database) {
    REQUIRE(database.put_merge({hash("r0"), hash("r1"), wall_now()}));
    REQUIRE(
        database.put_merge({hash("r1"), hash("account"), wall_now() - seconds{7200}}));  // by a slow clock
    REQUIRE(database.put_merge({hash("r2"), hash("alive"), wall_now()}));
  });
  const auto remaining = [&] {
    std::vector<std::string> out;
    for (const char* const each : {"r0", "r1", "r2", "r3", "r4"}) {
      const bool has_rows = !site.database()->readers().follows_of(ReaderId::trusted(each), 10)->empty();
      const bool has_key = site.key_contents().contains(site.keys().followed_authors(each));
      CHECK(has_rows == has_key);
      if (has_rows) out.emplace_back(each);
    }
    return out;
  };
  // Recorded; accepted, but not recorded yet; named; or recorded after a restore.
  const int how = GENERATE(0, 1, 2, 3);
  const auto erase = [&](database::Database& database) {
    REQUIRE(database.put_erasure(hash("account"), wall_now()));
  };
  if (how == 0) site.record(erase);
  if (how == 1) {
    redis::Pipeline accept;
    accept.add("SET", site.keys().tombstone(hash("account")), unix_s(wall_now()), "EX", 5000);
    REQUIRE(site.redis_there.call(accept));
  }
  if (how == 2) write_to(site.path("erased"), "account\n");
  if (how == 3) {
    REQUIRE(site.restore(site.path("backup"), true, {}, false) == 0);
    CHECK(remaining().size() == 5);
    site.record(erase);
  }
  // The account is used again after its erasure; r3 is merged into the new one.
  if (how != 2) {
    site.record([&](database::Database& database) {
      REQUIRE(database.put_merge({hash("r3"), hash("account"), wall_now() + seconds{60}}));
    });
  }
  REQUIRE(site.restore(site.path("backup"), true, how == 2 ? site.path("erased") : "", false) == 0);
  CHECK(remaining() == std::vector<std::string>{"r2", "r3", "r4"});
  // The database alone knows the erasures, whatever happened to the tombstones and the file.
  redis::Pipeline expire;
  for (const char* const each : {"account", "r0", "r1"}) expire.add("DEL", site.keys().tombstone(hash(each)));
  REQUIRE(site.redis_there.call(expire));
  REQUIRE(site.restore(site.path("backup"), true, {}, false) == 0);
  CHECK(remaining() == std::vector<std::string>{"r2", "r3", "r4"});
}

TEST_CASE("an earlier copy of the database does not know later erasures", "[backup]") {
  BackupSite site;
  populate(site);
  const std::string file = site.settings.recorder.database, copy = site.path("copy");
  REQUIRE(site.database()->truncate_wal());
  std::filesystem::copy_file(file, copy);
  REQUIRE(site.database()->set_fencing_token(9));
  REQUIRE(site.back_up());
  std::filesystem::copy_file(copy, file, std::filesystem::copy_options::overwrite_existing);
  const auto before = site.key_contents();
  CHECK(site.restore(site.path("backup"), true, {}, false) == kExitUnknownErasures);
  CHECK(site.key_contents() == before);
}

TEST_CASE("an earlier copy of the database with the same fencing token does not know later erasures",
          "[backup]") {
  BackupSite site;
  populate(site);
  const readers::ReaderPseudonyms hashes = erasure_hashes();
  const std::string file = site.settings.recorder.database;
  // An earlier backup, so the copy is not merely one from before the first.
  const bool has_earlier_backup = GENERATE(false, true);
  if (has_earlier_backup) REQUIRE(site.back_up("earlier"));
  const std::string copy = site.path("copy");
  REQUIRE(site.database()->truncate_wal());
  std::filesystem::copy_file(file, copy);
  REQUIRE(site.back_up());
  site.record([&](database::Database& database) {
    REQUIRE(database.put_erasure(hashes.erasure(ReaderId::trusted("r1")), wall_now()));
  });
  REQUIRE(site.restore(site.path("backup"), true, {}, false) == 0);
  std::filesystem::copy_file(copy, file, std::filesystem::copy_options::overwrite_existing);
  // A backup of the copy does not make it know more.
  const bool has_later_backup = GENERATE(false, true);
  if (has_later_backup) REQUIRE(site.back_up("later"));
  const auto before = site.key_contents();
  CHECK(site.restore(site.path("backup"), true, {}, false) == kExitUnknownErasures);
  CHECK(site.key_contents() == before);
  if (has_earlier_backup) CHECK(site.restore(site.path("earlier"), true, {}, false) == 0);
  CHECK(site.restore(site.path("backup"), true, {}, true) == 0);
  // Accepting them does not make them known.
  CHECK(site.restore(site.path("backup"), true, {}, false) == kExitUnknownErasures);
}

TEST_CASE("a backup waits for the database's lock and leaves its id in the database", "[backup]") {
  BackupSite site;
  populate(site);
  auto writer = site.database();
  REQUIRE(writer->begin());
  std::atomic<bool> done = false;
  Result<int> outcome = -1;
  std::thread backup([&] {
    outcome = site.back_up();
    done = true;
  });
  // Once the dump is complete, only the lock is missing.
  const auto dump_is_complete = [&] {
    std::error_code ignored;
    for (const auto& each : fs::recursive_directory_iterator(site.directory.path(), ignored)) {
      if (each.path().filename() != kRedisName) continue;
      auto dump = DumpReader::open(each.path().string());
      DumpRecord record;
      Result<bool> more = dump.has_value();
      while (more && *more) more = dump->next(record);
      return dump.has_value() && more.has_value();
    }
    return false;
  };
  while (!done && !dump_is_complete()) std::this_thread::yield();
  CHECK_FALSE(done);
  REQUIRE(writer->commit());
  backup.join();
  CHECK(outcome == 0);
  const auto manifest = verify_backup(site.path("backup"));
  REQUIRE(manifest);
  REQUIRE(manifest->id);
  CHECK_FALSE(manifest->id->empty());
  CHECK(writer->backup_ids() == std::vector<std::string>{*manifest->id});
}

TEST_CASE("if the database cannot be written, a backup succeeds, but no database knows later erasures",
          "[backup]") {
  BackupSite site;
  populate(site);
  SqliteShell(site.path("freshet.db"))
      .run(
          "CREATE TRIGGER full BEFORE INSERT ON meta WHEN new.name GLOB 'backup:*'"
          " BEGIN SELECT raise(ABORT, 'full'); END");
  REQUIRE(site.back_up() == 0);
  CHECK(verify_backup(site.path("backup"))->id == "");
  CHECK(site.restore(site.path("backup"), true, {}, false) == kExitUnknownErasures);
  CHECK(site.restore(site.path("backup"), true) == 0);
}

TEST_CASE("for a backup without an id, the identity and fencing token of the database count", "[backup]") {
  BackupSite site;
  populate(site);
  REQUIRE(site.back_up());
  std::string text = bytes_of(site.path("backup/manifest.json"));
  const std::size_t begin = text.find("\"id\":");
  REQUIRE(begin != std::string::npos);
  text.erase(begin, text.find(',', begin) + 1 - begin);
  write_to(site.path("backup/manifest.json"), text);
  REQUIRE(std::system(
              ("cd " + site.path("backup") + " && sha256sum manifest.json >manifest.sha256").c_str()) == 0);
  SqliteShell(site.path("freshet.db")).run("DELETE FROM meta WHERE name GLOB 'backup:*'");
  CHECK(site.restore(site.path("backup"), true, {}, false) == 0);
}

TEST_CASE("an unrecorded erasure survives a restore although the backup's clock was ahead", "[backup]") {
  BackupSite site;
  populate(site);
  const readers::ReaderPseudonyms hashes = erasure_hashes();
  REQUIRE(site.back_up());
  const auto accept = [&](const char* reader, seconds before_backup) {
    redis::Pipeline out;
    out.add("SET", site.keys().tombstone(hashes.erasure(ReaderId::trusted(reader))),
            unix_s(verify_backup(site.path("backup"))->began - before_backup), "EX", 5000);
    REQUIRE(site.redis_there.call(out));
  };
  accept("r1", seconds{119});
  accept("r2", seconds{121});
  REQUIRE(site.restore(site.path("backup"), true, {}, false) == 0);
  const auto keys = site.key_contents();
  CHECK_FALSE(keys.contains(site.keys().followed_authors("r1")));
  CHECK(keys.contains(site.keys().followed_authors("r2")));
  CHECK(site.database()->readers().follows_of(ReaderId::trusted("r1"), 10)->empty());
}

TEST_CASE("a tombstone does not replace the later time at which its erasure was recorded", "[backup]") {
  BackupSite site;
  populate(site);
  const std::string hash = erasure_hashes().erasure(ReaderId::trusted("not in the backup"));
  REQUIRE(site.back_up());
  const UnixSeconds recorded = wall_now();
  redis::Pipeline accept;
  accept.add("SET", site.keys().tombstone(hash), unix_s(recorded - seconds{5}), "EX", 5000);
  REQUIRE(site.redis_there.call(accept));
  site.record([&](database::Database& database) { REQUIRE(database.put_erasure(hash, recorded)); });
  REQUIRE(site.restore(site.path("backup"), true, {}, false) == 0);
  // Backups list the later time, and with it they show that they hold nothing from before.
  const auto erasures = site.database()->erasures_since(UnixSeconds{});
  REQUIRE(erasures);
  const auto found = std::ranges::find(*erasures, hash, &database::Database::Erasure::reader);
  REQUIRE(found != erasures->end());
  CHECK(unix_s(found->at) == unix_s(recorded));
}

namespace {

// Random steps with a model: which readers must be absent, and since which backups the current
// database has recorded all erasures.
struct ErasureModel : BackupSite {
  struct Saved {  // a backup, or a copy of the database file
    std::string path;
    std::set<std::string> readers, marks, erased;
  };

  explicit ErasureModel(unsigned seed) : random(seed) { database(); }

  std::size_t below(std::size_t limit) { return random() % limit; }
  ReaderId any_of(const std::set<std::string>& readers) {
    return ReaderId::trusted(*std::next(readers.begin(), static_cast<std::ptrdiff_t>(below(readers.size()))));
  }
  void call(redis::Pipeline& commands) { REQUIRE(redis_there.call(commands)); }

  std::set<std::string> present() {
    std::set<std::string> out;
    REQUIRE(database()->readers().for_each_interaction([&](const readers::ReaderEvent& each) -> Result<void> {
      out.insert(each.reader.str());
      return {};
    }));
    for (int i = 0; i < count; ++i) {
      redis::Pipeline query;
      query.add("EXISTS", keys().interactions("n" + std::to_string(i)));
      if (redis_there.call(query)->front().integer() == 1) out.insert("n" + std::to_string(i));
    }
    return out;
  }

  void add_reader() {
    const std::string name = "n" + std::to_string(count++);
    const std::string key = keys().interactions(name);
    redis::Pipeline add;
    add.add("ZADD", key, unix_s(wall_now()), "l:i1").add("EXPIRE", key, 5000);
    call(add);
    record([&](database::Database& database) {
      REQUIRE(database.readers().put_interaction(
          {ReaderId::trusted(name), ItemId::trusted("i1"), readers::Interaction::kLike, wall_now(), {}}));
    });
  }

  void erase_reader() {
    const auto readers = present();
    if (readers.empty()) return;
    const ReaderId reader = any_of(readers);
    redis::Pipeline remove;
    remove.add("DEL", keys().interactions(reader.view()));
    const bool is_recorded = below(3) > 0;
    if (!is_recorded)
      remove.add("SET", keys().tombstone(hashes.erasure(reader)), unix_s(wall_now()), "EX", 5000);
    call(remove);
    record([&](database::Database& database) {
      REQUIRE(database.readers().erase({reader}));
      if (is_recorded) REQUIRE(database.put_erasure(hashes.erasure(reader), wall_now()));
    });
    erased.insert(reader.str());
    if (!is_recorded) tombstones.insert(reader.str());
  }

  // After a restore the database lists the erasures, which copies made before it do not.
  void expire_tombstones() {
    for (const std::string& each : tombstones) {
      redis::Pipeline remove;
      remove.add("DEL", keys().tombstone(hashes.erasure(ReaderId::trusted(each))));
      call(remove);
      for (Saved& copy : copies) copy.erased.erase(each);
    }
    tombstones.clear();
  }

  void make_backup() {
    const std::string name = "backup" + std::to_string(saved++);
    REQUIRE(back_up(name) == 0);
    marks.insert(path(name));
    backups.push_back({path(name), present(), marks, erased});
  }

  void copy_file() {
    const std::string name = path("copy" + std::to_string(saved++));
    REQUIRE(database()->truncate_wal());
    fs::copy_file(settings.recorder.database, name);
    copies.push_back({name, present(), marks, erased});
  }

  // Undoes the erasures made since the copy, which nothing can know, except for those backups that
  // the copy does not know either.
  void roll_back() {
    if (copies.empty()) return;
    const Saved& copy = copies[below(copies.size())];
    fs::copy_file(copy.path, settings.recorder.database, fs::copy_options::overwrite_existing);
    marks = copy.marks;
    std::erase_if(erased, [&](const std::string& each) { return !copy.erased.contains(each); });
    for (const std::string& each : present()) erased.erase(each);
  }

  Result<int> restore_once(const Saved& backup, bool accept) const {
    return restore(backup.path, true, {}, accept);
  }

  void kill_restore(const Saved& backup, bool accept) {
    const pid_t child = fork();
    if (child == 0) {
      (void)restore_once(backup, accept);
      _exit(0);
    }
    REQUIRE(child > 0);
    std::this_thread::sleep_for(milliseconds(below(150)));  // any moment will do
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
  }

  void restore_backup() {
    if (backups.empty()) return;
    const Saved& backup = backups[below(backups.size())];
    const bool is_known = marks.contains(backup.path);
    if (!is_known) {
      const auto before = present();
      CHECK(restore_once(backup, false) == kExitUnknownErasures);
      CHECK(present() == before);
      if (below(2) > 0) return;
    }
    if (below(3) == 0) kill_restore(backup, !is_known);
    const auto restored = restore_once(backup, !is_known);
    CHECK(restored == 0);
    if (!restored) FAIL(restored.error().reason << " " << restored.error().detail);
    const auto after = present();
    for (const std::string& each : backup.readers) {
      INFO(each << " of " << backup.path);
      if (!erased.contains(each) && !was_ever_erased(each)) CHECK(after.contains(each));
    }
    if (below(2) > 0) expire_tombstones();
    // Accepted: those who are back must be erased again.
    if (!is_known) {
      for (const std::string& each : after) erased.erase(each);
    }
  }

  bool was_ever_erased(const std::string& reader) {
    ever_erased.insert(erased.begin(), erased.end());
    return ever_erased.contains(reader);
  }

  void step() {
    (void)was_ever_erased({});
    const std::size_t which = below(14);
    INFO("step " << which);
    if (which < 3)
      add_reader();
    else if (which < 6)
      erase_reader();
    else if (which < 8)
      make_backup();
    else if (which < 12)
      restore_backup();
    else if (which < 13)
      copy_file();
    else
      roll_back();
    for (const std::string& each : present()) {
      INFO(each);
      CHECK_FALSE(erased.contains(each));
    }
  }

  std::mt19937 random;
  const readers::ReaderPseudonyms hashes = erasure_hashes();
  int count = 0, saved = 0;
  std::set<std::string> erased, ever_erased, tombstones;
  std::set<std::string> marks;  // backups since which the current database has recorded all erasures
  std::vector<Saved> backups, copies;
};

}  // namespace

TEST_CASE("erasures survive random sequences of backups, restores, rollbacks and kills", "[backup][long]") {
  const unsigned seed = std::random_device{}();
  INFO("seed " << seed);
  ErasureModel model(seed);
  const int steps = repeat_count(40, 400);
  for (int i = 0; i < steps; ++i) {
    INFO("step " << i);
    model.step();
  }
}

TEST_CASE("a restore that cannot know later erasures changes nothing unless it is told to", "[backup]") {
  BackupSite from, to;
  populate(from);
  REQUIRE(from.back_up());
  redis::Pipeline marker;
  marker.add("SET", to.settings.redis.key_prefix + "hot:lost", 1);
  REQUIRE(to.redis_there.call(marker));
  const auto before = to.key_contents();
  CHECK(to.restore(from.path("backup"), true, {}, false) == kExitUnknownErasures);
  CHECK(to.key_contents() == before);
  CHECK_FALSE(std::filesystem::exists(to.settings.recorder.database));
  // A file that names no reader does not state which readers were erased.
  write_to(to.path("erased"), GENERATE("", "\n\n"));
  CHECK(to.restore(from.path("backup"), true, to.path("erased"), false) == kExitUnknownErasures);
  CHECK(to.key_contents() == before);
  CHECK_FALSE(std::filesystem::exists(to.settings.recorder.database));
  const bool by_file = GENERATE(false, true);
  write_to(to.path("erased"), "r1\n");
  CHECK(to.restore(from.path("backup"), true, by_file ? to.path("erased") : "", !by_file) == 0);
  CHECK(to.key_contents().size() > before.size());
}
