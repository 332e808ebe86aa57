#include "scripts/ctl/rebuild_redis.h"

#include <catch2/catch.hpp>

#include "tests/store/fixture.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace {

// A Redis, and a database with items of its own.
struct Lost : Fixture {
  TemporaryDirectory directory;
  std::unique_ptr<store::Database> database;
  RebuildRedisOptions options;

  explicit Lost(bool tags, int count) {
    hash_tags = tags;
    settings.redis.hash_tags = tags;
    open();
    options.quiet = true;
    auto opened = store::Database::open((directory.path() / "d").string(), store::Database::Mode::kWrite);
    REQUIRE(opened);
    database = std::move(*opened);
    REQUIRE(database->begin());
    for (int i = 0; i < count; ++i) REQUIRE(database->put_item(item(i, "of the database")));
    REQUIRE(database->commit());
  }
  static feed::Item item(int number, const std::string& title) {
    feed::Item made;
    made.id = ItemId::trusted("i" + std::to_string(number));
    made.title = title;
    made.tags = {TagName::trusted("t")};
    made.published_at = UnixSeconds{seconds{1700000000 + number}};
    return made;
  }
  Result<std::int64_t> rebuild() { return rebuild_redis(redis, *database, settings, options); }
  std::string title(int number) {
    const auto found = wait(items->get(item(number, "").id));
    return found ? found->title : std::string(found.error().reason);
  }
  std::int64_t integer(const std::string& command, const std::string& key) {
    redis::Pipeline ask;
    ask.add(command, key);
    const auto replies = redis.call(ask);
    REQUIRE(replies);
    return *replies->front().integer();
  }
};

}  // namespace

TEST_CASE("an empty Redis gets every item of the database, and the recorder hears nothing of it", "[ctl]") {
  Lost lost(GENERATE(false, true), 1234);
  CHECK(lost.rebuild() == 1234);
  for (const int each : {0, 499, 500, 1233}) CHECK(lost.title(each) == "of the database");
  CHECK(lost.integer("SCARD", store::Keys("", lost.hash_tags).tag("t")) == 1234);
  CHECK(lost.integer("XLEN", "recorder:stream") == 0);
}

TEST_CASE("a Redis with items is refused unless forced, and then has the database's", "[ctl]") {
  Lost lost(GENERATE(false, true), 2);
  REQUIRE(wait(lost.items->put(Lost::item(1, "of Redis"))));
  const auto refused = lost.rebuild();
  REQUIRE_FALSE(refused);
  CHECK(refused.error().reason == "has_items");
  CHECK(lost.title(0) == "unknown_item");
  CHECK(lost.title(1) == "of Redis");
  lost.options.force = true;
  CHECK(lost.rebuild() == 2);
  CHECK(lost.title(1) == "of the database");
}

TEST_CASE("an item that was deleted since Redis lost it does not come back", "[ctl]") {
  Lost lost(GENERATE(false, true), 3);
  REQUIRE(wait(lost.items->remove(Lost::item(1, "").id)));
  CHECK(lost.rebuild() == 2);
  CHECK(lost.title(0) == "of the database");
  CHECK(lost.title(1) == "unknown_item");
}

TEST_CASE("counters without an item are no reason to refuse", "[ctl]") {
  Lost lost(false, 1);
  REQUIRE(wait(lost.hot->track(Lost::report("stranger", "anna", 1000))));
  CHECK(lost.rebuild() == 1);
}
