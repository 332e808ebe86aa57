// Readers' data in SQLite: idempotent writes, migration of older files, and complete erasure.
#include "core/database/database_readers.h"

#include <cstdio>
#include <iterator>
#include <random>

#include "core/training/training_source.h"
#include "tests/recorder/fixture.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/error_of.h"
#include "tests/support/file_bytes.h"

using namespace freshet;
using namespace freshet::test;
using database::Database;

namespace {

// The first version's schema, as released.
constexpr const char* kVersion1 = R"sql(
PRAGMA journal_mode = WAL;
CREATE TABLE items (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  published_at INTEGER NOT NULL,  -- unix seconds, as is update_time
  update_time INTEGER,
  hidden INTEGER NOT NULL,
  title TEXT NOT NULL,
  author TEXT NOT NULL,
  url TEXT NOT NULL,
  text TEXT NOT NULL  -- last: what is long is not read when only the others are
) STRICT;
CREATE TABLE item_tags (
  item INTEGER NOT NULL REFERENCES items (key) ON DELETE CASCADE,
  place INTEGER NOT NULL,  -- from 0: the order they were given in
  tag TEXT NOT NULL,
  PRIMARY KEY (item, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX item_tags_by_tag ON item_tags (tag, item);
CREATE TABLE meta (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 1;
INSERT INTO items (id, published_at, hidden, title, author, url, text)
  VALUES ('old', 1700000000, 0, 'An old one', 'ann', '', 'text');
INSERT INTO item_tags VALUES (1, 0, 'swift');
INSERT INTO meta VALUES ('last_entry', '17-4');
)sql";

// The second version's additions.
constexpr const char* kVersion2 = R"sql(
CREATE TABLE readers (
  key INTEGER PRIMARY KEY,
  id TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX readers_by_id ON readers (id);
CREATE TABLE interactions (
  reader INTEGER NOT NULL,  -- readers.key, as in dismissals
  at INTEGER NOT NULL,      -- unix seconds
  item TEXT NOT NULL,
  kind TEXT NOT NULL,  -- a letter of rank::kInteractionKinds
  PRIMARY KEY (reader, at, item, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE dismissals (
  reader INTEGER NOT NULL,
  item TEXT NOT NULL,
  at INTEGER NOT NULL,
  reason TEXT NOT NULL,  -- "": none was given
  PRIMARY KEY (reader, item)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 2;
INSERT INTO readers VALUES (1, 'ann');
INSERT INTO interactions VALUES (1, 5, 'old', 'l');
INSERT INTO dismissals VALUES (1, 'old', 6, 'dull');
)sql";

// The third version's additions.
constexpr const char* kVersion3 = R"sql(
CREATE TABLE follows (
  reader INTEGER NOT NULL,  -- readers.key
  author TEXT NOT NULL,
  at INTEGER NOT NULL,  -- unix seconds
  PRIMARY KEY (reader, author)
) STRICT, WITHOUT ROWID;
PRAGMA user_version = 3;
INSERT INTO follows VALUES (1, 'bob', 7);
)sql";

readers::Follow follow(const std::string& reader, const std::string& author, std::int64_t at) {
  return {ReaderId::trusted(reader), AuthorId::trusted(author), UnixSeconds{seconds{at}}};
}

readers::ReaderEvent interaction(const std::string& reader, const std::string& item, std::int64_t at,
                                 readers::Interaction kind = readers::Interaction::kLike) {
  return {ReaderId::trusted(reader), ItemId::trusted(item), kind, UnixSeconds{seconds{at}}, {}};
}

readers::Dismissal dismissal(const std::string& reader, const std::string& item,
                             const std::string& reason = "") {
  return {ReaderId::trusted(reader), ItemId::trusted(item), reason, {}};
}

std::string text_of(const readers::ReaderEvent& event) {
  return event.reader.str() + " " + event.item.str() + " " + readers::kind_of(event.kind).letter + " " +
         std::to_string(event.at.time_since_epoch().count());
}
std::string text_of(const readers::DismissalRecord& each) {
  return each.dismissal.reader.str() + " " + each.dismissal.item.str() + " " +
         std::to_string(each.at.time_since_epoch().count()) + " " + each.dismissal.reason;
}

struct Readers {
  Folder folder;
  std::string path = (folder.path() / "items.db").string();
  std::unique_ptr<Database> database;

  void open(Database::Mode mode = Database::Mode::kWrite) {
    auto out = Database::open(path, mode);
    INFO((out ? "" : out.error().detail));
    REQUIRE(out);
    database = std::move(*out);
  }
  database::ReaderRows& rows() { return database->readers(); }
  void write(const std::function<void()>& what) {
    REQUIRE(database->begin());
    what();
    REQUIRE(database->commit());
  }
  void add(const std::vector<readers::ReaderEvent>& events) {
    write([&] {
      for (const auto& each : events) REQUIRE(rows().put_interaction(each));
    });
  }
  // "reader item letter at", in the order returned.
  std::vector<std::string> interactions() {
    std::vector<std::string> out;
    REQUIRE(rows().for_each_interaction([&](const readers::ReaderEvent& each) {
      out.push_back(text_of(each));
      return Result<void>();
    }));
    return out;
  }
  std::vector<std::string> interactions(const std::string& reader, std::int64_t from = 0,
                                        std::int64_t most = 1000) {
    const auto found = rows().interactions_of(ReaderId::trusted(reader), from, most);
    REQUIRE(found);
    std::vector<std::string> out;
    for (const auto& each : *found) out.push_back(text_of(each));
    return out;
  }
  std::vector<std::string> dismissals() {
    std::vector<std::string> out;
    REQUIRE(rows().for_each_dismissal([&](const readers::DismissalRecord& each) {
      out.push_back(text_of(each));
      return Result<void>();
    }));
    return out;
  }
  std::vector<std::string> dismissals(const std::string& reader) {
    const auto found = rows().dismissals_of(ReaderId::trusted(reader), 1000);
    REQUIRE(found);
    std::vector<std::string> out;
    for (const auto& each : *found) out.push_back(text_of(each));
    return out;
  }
  // "reader author at", sorted.
  std::vector<std::string> follows() {
    std::vector<std::string> out;
    REQUIRE(rows().for_each_follow([&](const readers::Follow& each) {
      out.push_back(each.reader.str() + " " + each.author.str() + " " +
                    std::to_string(each.at.time_since_epoch().count()));
      return Result<void>();
    }));
    std::sort(out.begin(), out.end());
    return out;
  }
  std::int64_t erase(const std::vector<std::string>& who) {
    std::vector<ReaderId> readers;
    for (const auto& each : who) readers.push_back(ReaderId::trusted(each));
    std::int64_t removed = 0;
    write([&] {
      const auto erased = rows().erase(readers);
      REQUIRE(erased);
      removed = *erased;
    });
    REQUIRE(database->truncate_wal());
    return removed;
  }
  bool files_contain(const std::string& bytes) const {
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      if (file_bytes(entry.path()).find(bytes) != std::string::npos) return true;
    }
    return false;
  }
  training::TrainingData training(int most) {
    TrainSettings settings;
    settings.max_per_reader = most;
    auto data = training::read_training_data(path, settings, UnixSeconds{seconds{2000000000}});
    INFO((data ? "" : data.error().detail));
    REQUIRE(data);
    return std::move(*data);
  }
};

}  // namespace

TEST_CASE_METHOD(Readers, "training reads how often registered items were viewed", "[database]") {
  open();
  for (const char* id : {"a", "b"}) {
    items::Item item;
    item.id = ItemId::trusted(id);
    item.published_at = UnixSeconds{seconds{1700000000}};
    REQUIRE(database->put_item(item));
  }
  SqliteShell(path).run(
      "INSERT INTO view_counts VALUES (1700000300, 300, 'b', 7), (1700000000, 3600, 'unknown', 9), (600, "
      "300, 'a', 0)");
  const auto data = training(10);
  REQUIRE(data.view_counts.size() == 1);
  CHECK(data.items[data.view_counts[0].item].id == "b");
  CHECK(data.view_counts[0].from == UnixSeconds{seconds{1700000300}});
  CHECK(data.view_counts[0].length == seconds{300});
  CHECK(data.view_counts[0].views == 7);
}

TEST_CASE_METHOD(Readers, "a file of the first version is migrated in place, with its data", "[database]") {
  SqliteShell(path).run(kVersion1);
  const auto refused = Database::open(path, Database::Mode::kRead);
  REQUIRE(!refused);
  CHECK(error_of(refused).reason == "database_absent");
  open();
  CHECK(database->item_count() == 1);
  CHECK(*database->last_entry("") == "17-4");
  REQUIRE(database->for_each_item([&](const items::Item& each) {
    CHECK(each.id.view() == "old");
    CHECK(each.tags.size() == 1);
    return Result<void>();
  }));
  add({interaction("r", "old", 5)});
  database.reset();
  open(Database::Mode::kRead);
  CHECK(interactions() == std::vector<std::string>{"r old l 5"});
  CHECK(SqliteShell(path).run("PRAGMA user_version") == "6");
  CHECK(SqliteShell(path).run("PRAGMA integrity_check") == "ok");
}

TEST_CASE_METHOD(Readers, "a file of the second version gains the follows table and keeps its data",
                 "[database]") {
  SqliteShell(path).run(kVersion1);
  SqliteShell(path).run(kVersion2);
  open();
  CHECK(interactions() == std::vector<std::string>{"ann old l 5"});
  CHECK(dismissals() == std::vector<std::string>{"ann old 6 dull"});
  write([&] { REQUIRE(rows().put_follow(follow("ann", "bob", 7))); });
  database.reset();
  open(Database::Mode::kRead);
  CHECK(follows() == std::vector<std::string>{"ann bob 7"});
  CHECK(SqliteShell(path).run("PRAGMA user_version") == "6");
  CHECK(SqliteShell(path).run("PRAGMA integrity_check") == "ok");
}

TEST_CASE_METHOD(Readers, "a file of the third version gains an item's members and keeps its data",
                 "[database]") {
  SqliteShell(path).run(kVersion1);
  SqliteShell(path).run(kVersion2);
  SqliteShell(path).run(kVersion3);
  open();
  CHECK(follows() == std::vector<std::string>{"ann bob 7"});
  items::Item old;
  old.id = ItemId::trusted("old");
  old.title = "An old one";
  old.author = "ann";
  old.text = "text";
  old.tags = {TagName::trusted("swift")};
  old.published_at = UnixSeconds{seconds{1700000000}};
  items::Item fuller = old;
  fuller.section = "Sport";
  fuller.weight = 2.5;
  std::vector<items::Item> found;
  const auto collect = [&](const items::Item& each) {
    found.push_back(each);
    return Result<void>();
  };
  REQUIRE(database->for_each_item(collect));
  write([&] { REQUIRE(database->put_item(fuller)); });
  REQUIRE(database->for_each_item(collect));
  CHECK(found == std::vector{old, fuller});
  CHECK(SqliteShell(path).run("PRAGMA integrity_check") == "ok");
}

TEST_CASE_METHOD(Readers,
                 "a follow is stored once, with its first time, until it ends or its reader is erased",
                 "[database]") {
  open();
  write([&] {
    REQUIRE(rows().put_follow(follow("reader-one", "bob", 7)));
    REQUIRE(rows().put_follow(follow("reader-one", "bob", 9)));
    REQUIRE(rows().put_follow(follow("reader-one", "eve", 8)));
    REQUIRE(rows().put_follow(follow("reader-two", "bob", 5)));
    REQUIRE(rows().put_follow(follow("reader-two", "eve", 6)));
    REQUIRE(rows().remove_follow(ReaderId::trusted("reader-two"), AuthorId::trusted("bob")));
    REQUIRE(rows().remove_follow(ReaderId::trusted("unknown"), AuthorId::trusted("bob")));
  });
  CHECK(follows() == std::vector<std::string>{"reader-one bob 7", "reader-one eve 8", "reader-two eve 6"});
  const auto oldest_follow = rows().follows_of(ReaderId::trusted("reader-one"), 1);
  REQUIRE(oldest_follow);
  REQUIRE(oldest_follow->size() == 1);
  CHECK(oldest_follow->front().author.view() == "bob");  // the oldest
  write([&] {
    REQUIRE(rows().remove_follow(ReaderId::trusted("reader-one"), AuthorId::trusted("bob")));
    REQUIRE(rows().put_follow(follow("reader-one", "bob", 9)));
  });
  CHECK(follows() == std::vector<std::string>{"reader-one bob 9", "reader-one eve 8", "reader-two eve 6"});
  CHECK(erase({"reader-one"}) == 3);
  CHECK(follows() == std::vector<std::string>{"reader-two eve 6"});
  CHECK(!files_contain("reader-one"));
}

TEST_CASE_METHOD(Readers, "writing an interaction again changes nothing; another time or kind adds a row",
                 "[database]") {
  open();
  for (int again = 0; again < 3; ++again) {
    add({interaction("b", "x", 20), interaction("a", "x", 7),
         interaction("b", "x", 10, readers::Interaction::kPost), interaction("b", "x", 10),
         interaction("b", "y", 15)});
  }
  CHECK(*rows().count_interactions() == 5);
  CHECK(interactions() ==
        std::vector<std::string>{"b x l 10", "b x p 10", "b y l 15", "b x l 20", "a x l 7"});
  CHECK(interactions("a") == std::vector<std::string>{"a x l 7"});
  CHECK(interactions("b", 1, 2) == std::vector<std::string>{"b x p 10", "b y l 15"});
  CHECK(interactions("unknown").empty());
}

TEST_CASE_METHOD(Readers, "the newest dismissal of a reader and item is kept until it is undone",
                 "[database]") {
  open();
  const auto at = [](std::int64_t second) { return UnixSeconds{seconds{second}}; };
  write([&] {
    REQUIRE(rows().put_dismissal(dismissal("a", "x", "boring"), at(10)));
    REQUIRE(rows().put_dismissal(dismissal("a", "x", "too long"), at(20)));
    REQUIRE(rows().put_dismissal(dismissal("a", "x", "an old one again"), at(15)));
    REQUIRE(rows().put_dismissal(dismissal("a", "y"), at(5)));
    REQUIRE(rows().put_dismissal(dismissal("b", "x"), at(5)));
  });
  CHECK(dismissals() == std::vector<std::string>{"a x 20 too long", "a y 5 ", "b x 5 "});
  write([&] {
    REQUIRE(rows().remove_dismissal(ReaderId::trusted("a"), ItemId::trusted("x"), at(20)));
    // Older than the dismissal.
    REQUIRE(rows().remove_dismissal(ReaderId::trusted("a"), ItemId::trusted("y"), at(4)));
    REQUIRE(rows().remove_dismissal(ReaderId::trusted("a"), ItemId::trusted("nothing"), at(20)));
    REQUIRE(rows().remove_dismissal(ReaderId::trusted("unknown"), ItemId::trusted("x"), at(20)));
  });
  CHECK(dismissals("a") == std::vector<std::string>{"a y 5 "});
  CHECK(dismissals("b") == std::vector<std::string>{"b x 5 "});
}

TEST_CASE_METHOD(Readers, "erasing readers leaves no byte of their ids in any file, and keeps all other rows",
                 "[database]") {
  open();
  std::mt19937 random(20260306);
  const auto below = [&](int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); };
  std::vector<std::string> names;
  for (int i = 0; i < 3000; ++i)
    names.push_back("reader-" + std::to_string(below(1000000000)) + "-" + std::to_string(i));
  // Rows are added in random order with deletions in between, so that pages split and merge.
  for (int round = 0; round < 60; ++round) {
    std::vector<readers::ReaderEvent> events;
    for (int i = 0; i < 400; ++i)
      events.push_back(interaction(names[static_cast<std::size_t>(below(3000))],
                                   "item" + std::to_string(below(5000)), below(1000000000)));
    add(events);
    write([&] {
      REQUIRE(rows().put_dismissal(dismissal(names[static_cast<std::size_t>(below(3000))], "item",
                                             std::string(static_cast<std::size_t>(below(200)), 'w')),
                                   UnixSeconds{}));
    });
  }
  REQUIRE(files_contain(names[0]));
  std::vector<std::string> expected = interactions();
  std::shuffle(names.begin(), names.end(), random);
  for (std::size_t i = 0; i < 100; ++i) {
    CHECK(erase({names[2 * i], names[2 * i + 1]}) > 0);
    for (const std::size_t gone : {2 * i, 2 * i + 1}) {
      std::erase_if(expected, [&](const std::string& row) { return row.starts_with(names[gone] + " "); });
      INFO(names[gone] << " after " << i);
      REQUIRE(!files_contain(names[gone]));
    }
  }
  CHECK(interactions() == expected);
  CHECK(erase({names[0], "unknown"}) == 0);
  CHECK(SqliteShell(path).run("PRAGMA integrity_check") == "ok");
  add({interaction(names[0], "item", 1)});
  CHECK(interactions(names[0]).size() == 1);
}

TEST_CASE_METHOD(Readers, "the log cannot be truncated while another connection reads it", "[database]") {
  open();
  add({interaction("a", "x", 1)});
  SqliteShell other(path);
  other.run("BEGIN");
  other.run("SELECT count(*) FROM interactions");
  add({interaction("b", "x", 1)});
  const auto refused = database->truncate_wal();
  REQUIRE(!refused);
  CHECK(error_of(refused).reason == "database_locked");
  other.run("COMMIT");
  REQUIRE(database->truncate_wal());
  CHECK(std::filesystem::file_size(path + "-wal") == 0);
}

TEST_CASE_METHOD(Readers, "training reads every item, and each reader's newest interactions in time order",
                 "[database]") {
  open();
  write([&] {
    items::Item item = Fixture::item("b", "A title", 1700000000);
    item.tags = {TagName::trusted("z"), TagName::trusted("a")};
    item.text = "text";
    item.author = "ann";
    REQUIRE(database->put_item(item));
    item = Fixture::item("a", "Hidden");
    item.hidden = true;
    REQUIRE(database->put_item(item));
  });
  std::vector<readers::ReaderEvent> events;
  for (int i = 0; i < 10; ++i)
    events.push_back(interaction("many", "b", 100 + i, readers::Interaction::kView));
  events.push_back(interaction("many", "never put", 1000));
  events.push_back(interaction("one", "a", 3, readers::Interaction::kPost));
  events.push_back(interaction("nothing known", "never put", 3));
  events.push_back(interaction("last", "b", 4));
  add(events);
  const int most = GENERATE(1, 3, 4, 7, 10, 11, 5000);
  const auto data = training(most);
  REQUIRE(data.items.size() == 2);
  CHECK(data.items[0].id == "a");
  CHECK(data.items[0].hidden);
  CHECK(data.items[1].title == "A title");
  CHECK(data.items[1].text == "text");
  CHECK(data.items[1].author == "ann");
  CHECK(data.items[1].tags == std::vector<std::string>{"z", "a"});
  CHECK(data.items[1].published == UnixSeconds{seconds{1700000000}});
  CHECK(data.now == UnixSeconds{seconds{2000000000}});
  const int kept = std::min(most, 10);
  REQUIRE(data.events.size() == static_cast<std::size_t>(kept) + 2);
  for (int i = 0; i < kept; ++i) {
    const auto& event = data.events[static_cast<std::size_t>(i)];
    CHECK(event.at == UnixSeconds{seconds{110 - kept + i}});
    CHECK(event.reader == data.events[0].reader);
    CHECK(event.item == 1);
    CHECK(event.kind == readers::Interaction::kView);
  }
  const auto& one = data.events[static_cast<std::size_t>(kept)];
  CHECK(one.kind == readers::Interaction::kPost);
  CHECK(one.item == 0);
  CHECK(one.reader != data.events[0].reader);
  CHECK(data.events.back().reader != one.reader);
}

TEST_CASE_METHOD(Readers, "reading 800,000 interactions for training", "[.measure]") {
  open();
  std::mt19937 random(1);
  const auto below = [&](int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); };
  write([&] {
    for (int i = 0; i < 20000; ++i)
      REQUIRE(database->put_item(Fixture::item("item-" + std::to_string(i), "Title")));
  });
  std::vector<readers::ReaderEvent> events;
  for (int i = 0; i < 800000; ++i)
    events.push_back(interaction("reader-" + std::to_string(below(50000)),
                                 "item-" + std::to_string(below(20000)), below(1000000)));
  using Clock = std::chrono::steady_clock;
  const auto spent = [](Clock::time_point since) {
    return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
  };
  auto began = Clock::now();
  add(events);
  std::printf("written in %.0f ms\n", spent(began));
  began = Clock::now();
  const auto data = training(5000);
  std::printf("%zu interactions read in %.0f ms\n", data.events.size(), spent(began));
  began = Clock::now();
  erase({"reader-17"});
  std::printf("one of 50,000 readers erased in %.0f ms\n", spent(began));
}
