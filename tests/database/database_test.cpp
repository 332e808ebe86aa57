// Items in SQLite, without a recorder.
#include "core/database/database.h"

#include <fmt/format.h>

#include <fstream>
#include <set>

#include "core/base/secret.h"
#include "core/database/database_copy.h"
#include "tests/recorder/fixture.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;
using database::Database;

namespace {

struct File {
  Folder folder;
  std::string path = (folder.path() / "items.db").string();
  std::unique_ptr<Database> open(Database::Mode mode = Database::Mode::kWrite) const {
    auto out = Database::open(path, mode);
    INFO((out ? "" : out.error().detail));
    REQUIRE(out);
    return std::move(*out);
  }
  static void put(Database& database, const items::Item& item) {
    REQUIRE(database.begin());
    REQUIRE(database.put_item(item));
    REQUIRE(database.commit());
  }
  static std::vector<std::string> ids(Database& database) {
    std::vector<std::string> out;
    REQUIRE(database.for_each_item([&](const items::Item& each) {
      out.push_back(each.id.str());
      return Result<void>();
    }));
    return out;
  }
};

items::Item make_item(const std::string& id) { return Fixture::item(id, "Title of " + id); }

}  // namespace

TEST_CASE_METHOD(File, "a transaction is applied completely or not at all", "[database]") {
  auto writer = open();
  auto reader = open(Database::Mode::kRead);
  REQUIRE(writer->begin());
  REQUIRE(writer->put_item(make_item("a")));
  REQUIRE(writer->put_item(make_item("b")));
  CHECK(ids(*reader).empty());
  CHECK(writer->item_count() == 0);
  writer->rollback();
  CHECK(ids(*writer).empty());
  REQUIRE(writer->begin());
  REQUIRE(writer->put_item(make_item("b")));
  REQUIRE(writer->put_item(make_item("a")));
  REQUIRE(writer->commit());
  CHECK(ids(*reader) == std::vector<std::string>{"a", "b"});
  CHECK(writer->item_count() == 2);
}

TEST_CASE_METHOD(File, "an erasure covers the readers who were merged into the reader, as of their merge",
                 "[database]") {
  auto database = open();
  const auto put = [&](const std::string& from, const std::string& to, std::int64_t at) {
    REQUIRE(database->put_merge({from, to, UnixSeconds{seconds{at}}}));
  };
  const auto erasures = [&] {
    std::map<std::string, std::int64_t> out;
    const auto all = database->erasures_since(UnixSeconds());
    REQUIRE(all);
    for (const auto& each : *all) out[each.reader] = unix_s(each.at);
    return out;
  };
  const auto merges = [&] {
    std::map<std::string, std::int64_t> out;
    const auto all = database->merges();
    REQUIRE(all);
    for (const auto& each : *all) out[each.from + ">" + each.to] = unix_s(each.at);
    return out;
  };
  using Times = std::map<std::string, std::int64_t>;
  SECTION("directly and through others, and the merges are no longer listed") {
    put("a", "b", 10);
    put("b", "c", 20);
    put("b", "c2", 15);  // a name with the other as a prefix
    put("a", "b", 30);
    put("d", "b", 31);
    REQUIRE(database->put_erasure("d", UnixSeconds{seconds{40}}));
    REQUIRE(database->put_erasure("c", UnixSeconds{seconds{50}}));
    CHECK(erasures() == Times{{"a", 30}, {"b", 20}, {"c", 50}, {"d", 40}});
    CHECK(merges() == Times{{"b>c2", 15}});
  }
  SECTION("but not an account that a merge made the target again") {
    put("a", "b", 10);
    put("b", "c", 20);
    put("c", "a", 30);
    CHECK(merges() == Times{{"b>c", 20}, {"c>a", 30}});
    REQUIRE(database->put_erasure("c", UnixSeconds{seconds{40}}));
    CHECK(erasures() == Times{{"b", 20}, {"c", 40}});
  }
  SECTION("until the merged reader was erased") {
    put("a", "b", 10);
    put("c", "b", 20);
    REQUIRE(database->put_erasure("a", UnixSeconds{seconds{10}}));
    REQUIRE(database->put_erasure("c", UnixSeconds{seconds{19}}));
    REQUIRE(database->prune_merges());
    CHECK(merges() == Times{{"c>b", 20}});
  }
  SECTION("and only those that are among the latest") {
    put("a", "b", 9);
    put("c", "b", 10);
    put("a", "d", 11);
    REQUIRE(database->prune_merges(2));
    CHECK(merges() == Times{{"a>d", 11}, {"c>b", 10}});
  }
}

TEST_CASE_METHOD(File, "writing an item again replaces it", "[database]") {
  auto database = open();
  auto item = make_item("a");
  item.tags = {TagName::trusted("z"), TagName::trusted("b")};
  put(*database, item);
  item.tags = {TagName::trusted("b"), TagName::trusted("c"), TagName::trusted("a")};
  item.update_time = UnixSeconds{seconds{5}};
  item.section = "Sport";
  item.language = "en";
  item.story = items::StoryId::trusted("s");
  item.text_format = items::TextFormat::kHtml;
  item.expires_at = item.published_at + seconds{1};
  item.weight = 0;
  put(*database, item);
  CHECK(database->item_count() == 1);
  REQUIRE(database->for_each_item([&](const items::Item& each) {
    CHECK(each == item);
    return Result<void>();
  }));
  SqliteShell shell(path);
  CHECK(shell.run("SELECT count(*) FROM item_tags") == "3");
  REQUIRE(database->begin());
  REQUIRE(database->remove_item(item.id));
  REQUIRE(database->remove_item(item.id));
  REQUIRE(database->remove_item(ItemId::trusted("unknown")));
  REQUIRE(database->commit());
  CHECK(database->item_count() == 0);
  CHECK(shell.run("SELECT count(*) FROM item_tags") == "0");
}

TEST_CASE_METHOD(File, "iteration includes hidden items, the visible count does not", "[database]") {
  auto database = open();
  auto hidden = make_item("hidden");
  hidden.hidden = true;
  put(*database, hidden);
  put(*database, make_item("visible"));
  CHECK(ids(*database).size() == 2);
  CHECK(database->count_visible().value_or(0) == 1);
}

TEST_CASE_METHOD(File, "a reader sees one snapshot and does not block a writer", "[database]") {
  auto writer = open();
  for (const char* id : {"a", "b", "c"}) put(*writer, make_item(id));
  auto reader = open(Database::Mode::kRead);
  std::vector<std::string> seen;
  REQUIRE(reader->for_each_item([&](const items::Item& each) {
    if (seen.empty()) put(*writer, make_item("d"));
    seen.push_back(each.id.str());
    return Result<void>();
  }));
  CHECK(seen == std::vector<std::string>{"a", "b", "c"});
  CHECK(ids(*reader).size() == 4);
}

TEST_CASE_METHOD(File, "iteration stops at the first error, and can be repeated", "[database]") {
  auto database = open();
  for (const char* id : {"a", "b", "c"}) put(*database, make_item(id));
  int seen = 0;
  const auto outcome = database->for_each_item([&](const items::Item&) -> Result<void> {
    if (++seen == 2) return fail(ErrorCode::kConflict, "enough");
    return {};
  });
  REQUIRE_FALSE(outcome);
  CHECK(error_of(outcome).reason == "enough");
  CHECK(seen == 2);
  CHECK(ids(*database).size() == 3);
  put(*database, make_item("d"));
  CHECK(ids(*database).size() == 4);
}

TEST_CASE_METHOD(File, "items are read some at a time, from an id on", "[database]") {
  auto database = open();
  for (const char* id : {"a", "b", "c", "d"}) put(*database, make_item(id));
  const auto some = [&](std::string_view after, std::int64_t limit) {
    std::string read;
    REQUIRE(database->for_some_items(after, limit, [&](const items::Item& each) {
      read += each.id.str();
      return Result<void>();
    }));
    return read;
  };
  CHECK(some("", 2) == "ab");
  CHECK(some("b", 2) == "cd");
  CHECK(some("bb", 9) == "cd");
  CHECK(some("d", 2).empty());
  CHECK(some("", -1) == "abcd");
}

TEST_CASE_METHOD(File, "the last entry is committed with its transaction", "[database]") {
  auto database = open();
  CHECK(database->last_entry("").value_or("?").empty());
  REQUIRE(database->begin());
  REQUIRE(database->put_last_entry("", "5-1"));
  REQUIRE(database->commit());
  REQUIRE(database->begin());
  REQUIRE(database->put_last_entry("", "6-0"));
  database->rollback();
  CHECK(open()->last_entry("").value_or("?") == "5-1");
}

TEST_CASE_METHOD(File, "a file that cannot be used is rejected and left unchanged", "[database]") {
  SECTION("no file, opened for reading") {
    CHECK(error_of(Database::open(path, Database::Mode::kRead)).reason == "database_absent");
    CHECK_FALSE(std::filesystem::exists(path));
  }
  SECTION("an empty file, opened for reading") {
    std::ofstream(path).close();
    CHECK(error_of(Database::open(path, Database::Mode::kRead)).reason == "database_absent");
  }
  SECTION("no folder") {
    CHECK(error_of(Database::open((folder.path() / "no" / "items.db").string(), Database::Mode::kWrite))
              .reason == "database_absent");
  }
  SECTION("another type of file") {
    std::ofstream(path) << std::string(8192, 'x');
    for (const auto mode : {Database::Mode::kRead, Database::Mode::kWrite})
      CHECK(error_of(Database::open(path, mode)).reason == "database_corrupt");
    CHECK(std::filesystem::file_size(path) == 8192);
  }
  SECTION("a later schema version") {
    put(*open(), make_item("a"));
    const int version = std::stoi(SqliteShell(path).run("PRAGMA user_version")) + 1;
    SqliteShell(path).run("PRAGMA user_version = " + std::to_string(version));
    const auto before = read_whole_file(path);
    REQUIRE(before);
    for (const auto mode : {Database::Mode::kRead, Database::Mode::kWrite}) {
      const Error error = error_of(Database::open(path, mode));
      CHECK(error.reason == "database_newer");
      CHECK(error.detail.ends_with(
          "schema version " + std::to_string(version) +
          ", written by a later version of Freshet; this one supports versions up to " +
          std::to_string(version - 1)));
    }
    const auto after = read_whole_file(path);
    CHECK((after && *after == *before));
  }
}

TEST_CASE_METHOD(File, "an empty file gets the whole schema", "[database]") {
  std::ofstream(path).close();
  put(*open(), make_item("a"));
  SqliteShell shell(path);
  CHECK(shell.run("PRAGMA user_version") == "6");
  CHECK(shell.run("PRAGMA journal_mode") == "wal");
  CHECK(shell.run("PRAGMA integrity_check") == "ok");
}

TEST_CASE_METHOD(File, "a deleted or replaced file is detected", "[database]") {
  auto database = open();
  put(*database, make_item("a"));
  CHECK_FALSE(database->was_replaced());
  SECTION("deleted") { std::filesystem::remove(path); }
  SECTION("replaced") {
    SqliteShell(path).run("VACUUM INTO '" + path + ".copy'");
    std::filesystem::rename(path + ".copy", path);
  }
  SECTION("its log deleted") { std::filesystem::remove(path + "-wal"); }
  CHECK(database->was_replaced());
}

TEST_CASE_METHOD(File, "the log of a replaced database is not replayed into the new one", "[database]") {
  auto database = open();
  put(*database, make_item("a"));
  SqliteShell(path).run("VACUUM INTO '" + path + ".copy'");
  for (const char* id : {"b", "c", "d"}) put(*database, make_item(id));
  std::filesystem::rename(path + ".copy", path);
  database.reset();
  CHECK(ids(*open()) == std::vector<std::string>{"a"});
  CHECK(SqliteShell(path).run("PRAGMA integrity_check") == "ok");
}

TEST_CASE_METHOD(File, "deleted data is overwritten in the file", "[database]") {
  auto database = open();
  auto item = make_item("a");
  item.text = "a-secret-that-must-go";
  put(*database, item);
  REQUIRE(database->begin());
  REQUIRE(database->remove_item(item.id));
  REQUIRE(database->commit());
  database.reset();  // checkpoints the log into the file
  std::ifstream in(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  CHECK(bytes.size() > 4096);
  CHECK(bytes.find(item.text) == std::string::npos);
}

TEST_CASE_METHOD(File, "a connection cannot write after another one stored a higher token", "[database]") {
  auto first = open(), second = open();
  REQUIRE(first->set_fencing_token(1));
  put(*first, make_item("a"));
  REQUIRE(second->set_fencing_token(2));
  CHECK(second->stored_fencing_token() == 2);
  for (int again = 0; again < 2; ++again) {
    const auto refused = first->begin();
    REQUIRE_FALSE(refused);
    CHECK(error_of(refused).reason == "lease_lost");
    CHECK(error_of(first->verify_fencing_token()).reason == "lease_lost");
    CHECK(error_of(first->set_fencing_token(1)).reason == "lease_lost");
  }
  put(*second, make_item("b"));
  CHECK(ids(*second) == std::vector<std::string>{"a", "b"});
  REQUIRE(first->set_fencing_token(3));
  CHECK_FALSE(second->verify_fencing_token());
}

TEST_CASE_METHOD(File, "a database has an identity that its copies share and no other database has",
                 "[database]") {
  const std::string identity = open()->database_id();
  CHECK(identity.size() == 32);
  CHECK(open()->database_id() == identity);
  CHECK(open(Database::Mode::kRead)->database_id() == identity);
  SqliteShell(path).run("VACUUM INTO '" + path + ".copy'");
  CHECK(Database::open(path + ".copy", Database::Mode::kWrite).value()->database_id() == identity);
  CHECK(Database::open(path + ".other", Database::Mode::kWrite).value()->database_id() != identity);
}

TEST_CASE_METHOD(File, "a database keeps the latest ids of backups, in their order", "[database]") {
  const auto database = open();
  std::vector<std::string> expected;
  for (int i = 0; i < 11; ++i) expected.push_back(database::add_backup_id(path).value());  // 10 sorts after 9
  CHECK(database->backup_ids() == expected);
  CHECK(std::set<std::string>(expected.begin(), expected.end()).size() == expected.size());
  std::vector<std::string> many;
  for (int i = 0; i < database::kMaxBackupIds; ++i) many.push_back("id" + std::to_string(i));
  REQUIRE(database->begin());
  REQUIRE(database->set_backup_ids(many));
  REQUIRE(database->commit());
  many.push_back(database::add_backup_id(path).value());
  many.erase(many.begin());
  CHECK((database->backup_ids() == many));
}

namespace {

// "bucket seconds item views" of every row.
std::string view_counts(const std::string& path) {
  return SqliteShell(path).run(
      "SELECT group_concat(bucket || ' ' || seconds || ' ' || item || ' ' || views, '; ')"
      " FROM (SELECT * FROM view_counts ORDER BY bucket, item)");
}

void add_views(Database& database, std::int64_t bucket, const std::string& item, std::int64_t views,
               std::int64_t now) {
  REQUIRE(database.begin());
  REQUIRE(database.add_views(UnixSeconds{seconds{bucket}}, ItemId::trusted(item), views,
                             UnixSeconds{seconds{now}}));
  REQUIRE(database.commit());
}

void prune(Database& database, std::int64_t now) {
  REQUIRE(database.begin());
  REQUIRE(database.prune_view_counts(UnixSeconds{seconds{now}}));
  REQUIRE(database.commit());
}

constexpr std::int64_t kSomeDay = 1'700'006'400, kDay = 86400;  // midnight

}  // namespace

TEST_CASE_METHOD(File, "views are added up by bucket and item, unless they are too old or to come",
                 "[database]") {
  auto database = open();
  const std::int64_t now = kSomeDay + 7000;
  add_views(*database, kSomeDay + 6900, "a", 2, now);
  add_views(*database, kSomeDay + 6900, "a", 3, now);
  add_views(*database, kSomeDay + 6900, "b", 1, now);
  add_views(*database, kSomeDay + 3600 - 2 * kDay, "late", 1, now);  // the oldest hour that is kept by bucket
  add_views(*database, kSomeDay + 3300 - 2 * kDay, "too late", 1, now);
  add_views(*database, kSomeDay + 7200, "to come", 1, now);
  CHECK(view_counts(path) == "1699837200 300 late 1; 1700013300 300 a 5; 1700013300 300 b 1");
}

TEST_CASE_METHOD(File, "views older than two days are kept by the hour, for 14 days", "[database]") {
  auto database = open();
  for (const std::int64_t bucket : {0, 300, 3300, 3600, 3900, 7200})
    add_views(*database, kSomeDay + bucket, "a", 1 + bucket / 300, kSomeDay + 8000);
  add_views(*database, kSomeDay + 300, "b", 7, kSomeDay + 8000);
  prune(*database, kSomeDay + 2 * kDay);
  CHECK(view_counts(path).starts_with("1700006400 300 a 1; 1700006700 300 a 2; "));
  prune(*database, kSomeDay + 2 * kDay + 7100);  // one hour is older than two days, the next one not entirely
  const std::string merged =
      "1700006400 3600 a 15; 1700006400 3600 b 7; 1700010000 300 a 13; 1700010300 300 a 14; 1700013600 300 a "
      "25";
  CHECK(view_counts(path) == merged);
  prune(*database, kSomeDay + 2 * kDay + 7100);
  CHECK(view_counts(path) == merged);
  prune(*database, kSomeDay + 10 * kDay);
  CHECK(view_counts(path) ==
        "1700006400 3600 a 15; 1700006400 3600 b 7; 1700010000 3600 a 27; 1700013600 3600 a 25");
  prune(*database, kSomeDay + 14 * kDay + 3600);
  CHECK(view_counts(path) == "1700010000 3600 a 27; 1700013600 3600 a 25");
  prune(*database, kSomeDay + 20 * kDay);
  CHECK(view_counts(path).empty());
}

TEST_CASE_METHOD(File, "a completed bucket keeps only its most viewed items", "[database]") {
  auto database = open();
  const std::int64_t now = kSomeDay + 1000;
  REQUIRE(database->begin());
  const std::int64_t count = Database::kMaxViewedItems + 50;
  for (std::int64_t i = 0; i < count; ++i) {
    for (const std::int64_t bucket : {0, 900}) {
      REQUIRE(database->add_views(UnixSeconds{seconds{kSomeDay + bucket}},
                                  ItemId::trusted("i" + std::to_string(i)), 1 + i % 100,
                                  UnixSeconds{seconds{now}}));
    }
  }
  REQUIRE(database->commit());
  prune(*database, now);
  SqliteShell shell(path);
  CHECK(shell.run("SELECT count(*) FROM view_counts WHERE bucket = 1700006400") == "2000");
  // 21 items have one view, and as many have two: 29 of these are dropped last.
  CHECK(shell.run("SELECT count(*) FROM view_counts WHERE bucket = 1700006400 AND views = 1") == "0");
  CHECK(shell.run("SELECT count(*) FROM view_counts WHERE bucket = 1700006400 AND views > 3") ==
        shell.run("SELECT count(*) FROM view_counts WHERE bucket = 1700007300 AND views > 3"));
  CHECK(shell.run("SELECT count(*) FROM view_counts WHERE bucket = 1700007300") == std::to_string(count));
}

namespace {

void add_covisits(Database& database, const std::string& item, const std::string& next, std::int64_t at,
                  std::int64_t count, std::int64_t now) {
  REQUIRE(database.begin());
  REQUIRE(database.add_covisits(ItemId::trusted(item), ItemId::trusted(next), UnixSeconds{seconds{at}}, count,
                                UnixSeconds{seconds{now}}));
  REQUIRE(database.commit());
}

// "next weight" of each, the weight at `now`.
std::string covisits(Database& database, const std::string& item, std::int64_t now, std::size_t limit = 20) {
  const auto found = database.covisits(ItemId::trusted(item), limit, UnixSeconds{seconds{now}});
  REQUIRE(found);
  std::string out;
  for (const auto& each : *found)
    out += fmt::format("{} {:.3f}; ", each.next.str(),
                       items::covisit_weight(each.recent, UnixSeconds{seconds{now}}));
  return out;
}

}  // namespace

TEST_CASE_METHOD(File, "a pair counts from three reads on, each half after an hour, for three days",
                 "[database]") {
  auto database = open();
  const std::int64_t now = kSomeDay + 40'000;
  add_covisits(*database, "a", "b", now - 7200, 2, now);
  add_covisits(*database, "a", "c", now, 2, now);
  add_covisits(*database, "x", "b", now, 9, now);
  CHECK(covisits(*database, "a", now).empty());
  add_covisits(*database, "a", "b", now - 3600, 2, now);
  CHECK(covisits(*database, "a", now) == "b 1.500; ");
  add_covisits(*database, "a", "c", now - kDay, 1, now);               // the day before counts, too
  add_covisits(*database, "a", "d", now + 100, 9, now);                // by a clock that is ahead: now
  add_covisits(*database, "a", "d", kSomeDay - 3 * kDay - 1, 9, now);  // too old
  CHECK(covisits(*database, "a", now) == "d 9.000; c 2.000; b 1.500; ");
  CHECK(covisits(*database, "a", now, 1) == "d 9.000; ");
  add_covisits(*database, "a", "e", kSomeDay - 3 * kDay, 3, now);
  CHECK(covisits(*database, "a", now) == "d 9.000; c 2.000; b 1.500; e 0.000; ");
  // On the third day after the first reads they are still known, on the fourth they are not.
  CHECK(covisits(*database, "a", kSomeDay + 3 * kDay) == "d 0.000; b 0.000; ");
}

TEST_CASE_METHOD(File, "pairs are bounded by day, and old days are deleted", "[database]") {
  auto database = open();
  const std::int64_t now = kSomeDay + 1000, extra = 20;
  REQUIRE(database->begin());
  for (std::int64_t i = 0; i < Database::kMaxCovisits + extra; ++i)
    REQUIRE(database->add_covisits(ItemId::trusted("a"), ItemId::trusted(std::to_string(i)),
                                   UnixSeconds{seconds{i < extra ? kSomeDay : now}}, 1,
                                   UnixSeconds{seconds{now}}));
  REQUIRE(database->commit());
  add_covisits(*database, "a", "old", kSomeDay - kDay, 1, now);
  const auto prune_at = [&](std::int64_t at) {
    REQUIRE(database->begin());
    REQUIRE(database->prune_covisits(UnixSeconds{seconds{at}}));
    REQUIRE(database->commit());
  };
  prune_at(now);
  SqliteShell shell(path);
  CHECK(shell.run("SELECT count(*) FROM covisits WHERE day = 1700006400") ==
        std::to_string(Database::kMaxCovisits));
  CHECK(shell.run("SELECT count(*) FROM covisits WHERE length(next) < 2") == "0");  // the least recent ones
  CHECK(shell.run("SELECT count(*) FROM covisits WHERE next = 'old'") == "1");
  prune_at(now + 3 * kDay);
  CHECK(shell.run("SELECT count(*) FROM covisits WHERE next = 'old'") == "0");
  CHECK(shell.run("SELECT count(*) FROM covisits") == std::to_string(Database::kMaxCovisits));
  prune_at(now + 4 * kDay);
  CHECK(shell.run("SELECT count(*) FROM covisits") == "0");
}
