// Items in SQLite, without a recorder.
#include "core/database/database.h"

#include <fstream>

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

TEST_CASE_METHOD(File, "writing an item again replaces it", "[database]") {
  auto database = open();
  auto item = make_item("a");
  item.tags = {TagName::trusted("z"), TagName::trusted("b")};
  put(*database, item);
  item.tags = {TagName::trusted("b"), TagName::trusted("c"), TagName::trusted("a")};
  item.update_time = UnixSeconds{seconds{5}};
  put(*database, item);
  CHECK(database->item_count() == 1);
  REQUIRE(database->for_each_item([&](const items::Item& each) {
    CHECK(same(each, item));
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
    open();
    SqliteShell(path).run("PRAGMA user_version = 1000");
    for (const auto mode : {Database::Mode::kRead, Database::Mode::kWrite})
      CHECK(error_of(Database::open(path, mode)).reason == "database_newer");
    CHECK(SqliteShell(path).run("PRAGMA user_version") == "1000");
  }
}

TEST_CASE_METHOD(File, "an empty file gets the whole schema", "[database]") {
  std::ofstream(path).close();
  put(*open(), make_item("a"));
  SqliteShell shell(path);
  CHECK(shell.run("PRAGMA user_version") == "4");
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
