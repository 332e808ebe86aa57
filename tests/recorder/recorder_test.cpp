// Tests what the recorder stores while all dependencies are available.
#include <cstdio>

#include "core/base/json.h"
#include "core/items/covisits.h"
#include "core/search/index_folder.h"
#include "tests/recorder/fixture.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/repeat_count.h"
#include "tests/support/shared_files.h"

using namespace freshet;
using namespace freshet::test;

namespace {

items::Item full_item(const std::string& id) {
  auto out = Fixture::item(id, "Spring floods");
  out.text = std::string("body\r\n\0with NUL, 文章", 24);
  out.author = "作者";
  out.url = "https://example.org/?a=1&b=2";
  out.tags = {TagName::trusted("swift"), TagName::trusted("软件"), TagName::trusted("a")};
  out.update_time = UnixSeconds{seconds{1700000060}};
  out.section = "Sport & Freizeit";
  out.language = "de-CH";
  out.story = items::StoryId::trusted("flood-2023");
  out.text_format = items::TextFormat::kHtml;
  out.expires_at = UnixSeconds{seconds{1800000000}};
  out.weight = 0.1;
  return out;
}

}  // namespace

TEST_CASE_METHOD(Fixture, "a put item is recorded byte for byte, a removed one leaves no trace",
                 "[recorder]") {
  start();
  put(full_item("a"));
  put(item("b", "To be removed"));
  put(item("c", ""));
  REQUIRE(becomes_idle());
  check_all();
  remove("b");
  remove("never-was");
  auto fewer = item("a", "Summer floods");
  fewer.hidden = true;
  put(fewer);
  REQUIRE(becomes_idle());
  check_all();
  CHECK(shared->report.items.load() == 2);
  CHECK(eventually([&] { return shared->report.entries.load() == 6; }));
  CHECK(shared->report.malformed.load() == 0);
  CHECK(shared->report.last_commit.load() > 0);
  CHECK(shared->report.lag_entries.load() == 0);
}

TEST_CASE_METHOD(Fixture,
                 "a hidden item stays in the database and leaves the index until it is visible again",
                 "[recorder]") {
  start();
  auto one = full_item("a");
  put(one);
  one.hidden = true;
  put(one);
  REQUIRE(becomes_idle());
  check_all();
  one.hidden = false;
  put(one);
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(Fixture, "writes before the recorder's start are recorded", "[recorder]") {
  settings.recorder.batch_size = 7;
  for (int i = 0; i < 50; ++i) put(item("i" + std::to_string(i % 20), "Version " + std::to_string(i)));
  start();
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(Fixture, "the last of many writes of one item in a batch wins", "[recorder]") {
  for (int i = 0; i < 300; ++i) put(item("a", "Version " + std::to_string(i)));
  remove("a");
  for (int i = 0; i < 5; ++i) put(item("a", "Again " + std::to_string(i)));
  put(item("b", "Put"));
  remove("b");
  start();
  REQUIRE(becomes_idle());
  check_all();
  CHECK(model.size() == 1);
}

TEST_CASE_METHOD(Fixture, "entries left by another consumer are taken over before newer ones", "[recorder]") {
  command("XGROUP", "CREATE", keys().partition(0).stream(), "recorder", "0", "MKSTREAM");
  put(item("a", "Old"));
  command("XREADGROUP", "GROUP", "recorder", "a-dead-one", "STREAMS", keys().partition(0).stream(), ">");
  put(item("b", "Old"));
  command("XREADGROUP", "GROUP", "recorder", "recorder", "STREAMS", keys().partition(0).stream(), ">");
  put(item("c", "Old"));
  command("XREADGROUP", "GROUP", "recorder", "a-dead-one", "STREAMS", keys().partition(0).stream(), ">");
  for (const char* id : {"a", "b", "c"}) put(item(id, "New"));
  REQUIRE(pending() == 3);
  settings.recorder.batch_size = 2;
  start();
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(Fixture, "entries taken by another consumer from a running recorder are taken back",
                 "[recorder]") {
  put(item("a", "First"));
  start();
  REQUIRE(becomes_idle());
  redis::Pipeline steal;
  steal.add("MULTI");
  steal.add("XADD", keys().partition(0).stream(), "*", "op", "put", "id", "b", "title", "Taken",
            "published_at", 1700000000, "tags", "", "hidden", 0);
  steal.add("XREADGROUP", "GROUP", "recorder", "another", "STREAMS", keys().partition(0).stream(), ">");
  steal.add("EXEC");
  REQUIRE(redis.call(steal));
  model["b"] = item("b", "Taken");
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(Fixture, "a malformed entry is counted and blocks nothing", "[recorder]") {
  const std::string stream = keys().partition(0).stream();
  put(item("before", "Before"));
  command("XADD", stream, "*", "op", "put");
  command("XADD", stream, "*", "op", "put", "id", "a\tb", "title", "x", "published_at", 1);
  command("XADD", stream, "*", "op", "put", "id", std::string(513, 'x'), "title", "x", "published_at", 1);
  command("XADD", stream, "*", "op", "put", "id", "no-date", "title", "x");
  command("XADD", stream, "*", "op", "put", "id", "late", "title", "x", "published_at", "253402300800");
  command("XADD", stream, "*", "op", "put", "id", "odd", "title", "x", "published_at", "12x");
  command("XADD", stream, "*", "op", "put", "id", "odd", "title", "x", "published_at", 1, "update_time",
          "-1");
  command("XADD", stream, "*", "op", "put", "id", "odd", "title", "x", "published_at", 1, "expires_at", "x");
  command("XADD", stream, "*", "op", "put", "id", "odd", "title", "x", "published_at", 1, "weight", "nan");
  command("XADD", stream, "*", "op", "put", "id", "odd", "title", "x", "published_at", 1, "weight", "10.5");
  command("XADD", stream, "*", "op", "put", "id", "odd", "title", "\xFF\xFE", "published_at", 1);
  command("XADD", stream, "*", "op", "put", "id", "odd", "tags",
          "a\x1f"
          "b\x7f",
          "published_at", 1);
  command("XADD", stream, "*", "op", "become", "id", "odd");
  command("XADD", stream, "*", "id", "odd");
  command("XADD", stream, "*", "", "");
  put(item("after", "After"));
  start();
  REQUIRE(becomes_idle());
  CHECK(eventually(
      [&] { return shared->report.malformed.load() == 15 && shared->report.entries.load() == 17; }));
  check_all();
  // Alone in a batch, and last in one.
  command("XADD", stream, "*", "op", "put");
  REQUIRE(becomes_idle());
  CHECK(eventually([&] { return shared->report.malformed.load() == 16; }));
  check_all();
}

namespace {

// "bucket item views" of every row.
std::string view_counts(const Fixture& site) {
  return SqliteShell(site.settings.recorder.database)
      .run(
          "SELECT group_concat(bucket || ' ' || item || ' ' || views, '; ')"
          " FROM (SELECT * FROM view_counts ORDER BY bucket, item)");
}

// An entry of counts; '/' is the separator.
std::string counts(std::string text) {
  std::ranges::replace(text, '/', kIdSeparator);
  return text;
}

}  // namespace

TEST_CASE_METHOD(Fixture, "counts of views are added up in the database", "[recorder]") {
  const std::string stream = keys().partition(0).stream();
  const std::int64_t now = unix_s(wall_now()) / 300 * 300;
  const std::string bucket = std::to_string(now), before = std::to_string(now - 86400);
  start();
  put(item("a", "Title"));
  command("XADD", stream, "*", "op", "counts", "views",
          counts(bucket + "/a/2/" + bucket + "/b/1/" + before + "/a/7"));
  command("XADD", stream, "*", "op", "counts", "views", counts(bucket + "/a/3"));
  const std::string old = std::to_string(now - 3 * 86400), later = std::to_string(now + 7200);
  command("XADD", stream, "*", "op", "counts", "views", counts(old + "/a/3/" + later + "/a/3"));
  REQUIRE(becomes_idle());
  check_all();
  CHECK(view_counts(*this) == before + " a 7; " + bucket + " a 5; " + bucket + " b 1");
  CHECK(shared->report.malformed.load() == 0);
}

TEST_CASE_METHOD(Fixture, "malformed counts are rejected as a whole", "[recorder]") {
  const std::string stream = keys().partition(0).stream();
  const std::string bucket = std::to_string(unix_s(wall_now()) / 300 * 300);
  start();
  const std::vector<std::string> malformed{"",
                                           "x",
                                           bucket + "/a",
                                           bucket + "/a/1/" + bucket,
                                           bucket + "/a/0",
                                           bucket + "/a/-1",
                                           bucket + "/a/1.5",
                                           bucket + "/a/9223372036854775807",
                                           bucket + "/a\tb/1",
                                           "1700000001/a/1",
                                           "-300/a/1",
                                           "253402300800/a/1",
                                           bucket + "/a/1//"};
  for (const std::string& text : malformed)
    command("XADD", stream, "*", "op", "counts", "views", counts(text));
  command("XADD", stream, "*", "op", "counts");
  command("XADD", stream, "*", "op", "counts", "views", counts(bucket + "/good/1"));
  REQUIRE(becomes_idle());
  CHECK(view_counts(*this) == bucket + " good 1");
  CHECK(eventually([&] { return shared->report.malformed.load() == 14; }));  // reported after the commit
}

TEST_CASE_METHOD(Fixture, "counts that are delivered again are not counted again", "[recorder]") {
  const std::string stream = keys().partition(0).stream();
  const std::string bucket = std::to_string(unix_s(wall_now()) / 300 * 300);
  start();
  command("XADD", stream, "*", "op", "counts", "views", counts(bucket + "/a/1"));
  REQUIRE(becomes_idle());
  stop();
  // A recorder died after it committed two batches and before it acknowledged them.
  settings.recorder.batch_size = 1;
  for (const char* views : {"/a/10", "/a/20"})
    command("XADD", stream, "*", "op", "counts", "views", counts(bucket + views));
  const auto entries = command("XRANGE", stream, "-", "+");
  REQUIRE(entries.size() == 2);
  const std::string entry(redis::string_at(entries[1], 0));
  SqliteShell(settings.recorder.database)
      .run("UPDATE meta SET value = '" + entry + "' WHERE name IN ('last_entry', 'counted:')");
  command("XADD", stream, "*", "op", "counts", "views", counts(bucket + "/a/100"));
  start();
  REQUIRE(becomes_idle());
  CHECK(view_counts(*this) == bucket + " a 101");
}

TEST_CASE_METHOD(Fixture, "pairs are added up once and published from three reads on", "[recorder]") {
  const std::string stream = keys().partition(0).stream();
  const std::string now = std::to_string(unix_s(wall_now())),
                    bucket = std::to_string(unix_s(wall_now()) / 300 * 300);
  const auto add = [&](const std::string& pairs) {
    command("XADD", stream, "*", "op", "counts", "covisits", counts(now + pairs));
  };
  const auto pairs = [&] {
    return SqliteShell(settings.recorder.database)
        .run(
            "SELECT group_concat(item || ' ' || next || ' ' || count, '; ')"
            " FROM (SELECT * FROM covisits ORDER BY item, next)");
  };
  const auto published = [&](const std::string& item) {
    std::string out;
    for (const auto& each : items::parse_covisits(command("GET", keys().covisits(item)).text()))
      out += each.next.str() + " ";
    return out;
  };
  start();
  command("XADD", stream, "*", "op", "counts", "views", counts(bucket + "/a/1"), "covisits",
          counts(now + "/a/b/2/a/c/3/b/a/2"));
  REQUIRE(becomes_idle());
  CHECK(pairs() == "a b 2; a c 3; b a 2");
  CHECK(view_counts(*this) == bucket + " a 1");
  CHECK(eventually([&] { return published("a") == "c "; }));
  CHECK(command("TTL", keys().covisits("a")).integer().value() > 86000);
  CHECK(published("b").empty());
  stop();
  // A recorder died after it committed an entry and before it acknowledged it.
  add("/a/b/1");
  const auto entries = command("XRANGE", stream, "-", "+");
  REQUIRE(entries.size() == 1);
  SqliteShell(settings.recorder.database)
      .run("UPDATE meta SET value = '" + std::string(redis::string_at(entries[0], 0)) +
           "' WHERE name IN ('last_entry', 'counted:')");
  add("/a/b/100");
  start();
  REQUIRE(becomes_idle());
  CHECK(pairs() == "a b 102; a c 3; b a 2");
  CHECK(eventually([&] { return published("a") == "b c "; }));

  for (const char* text : {"", "/a", "/a/b", "/a/b/0", "/a/b/-1", "/a/b/x", "/a/a/1", "/a/b/1/c", "/a\tb/c/1",
                           "/a/b/9223372036854775807"})
    add(text);
  command("XADD", stream, "*", "op", "counts", "covisits", counts("x/a/b/1"));
  command("XADD", stream, "*", "op", "counts", "covisits", counts("-1/a/b/1"));
  command("XADD", stream, "*", "op", "counts", "views", counts(bucket + "/a"), "covisits",
          counts(now + "/a/b/1"));
  REQUIRE(becomes_idle());
  CHECK(eventually([&] { return shared->report.malformed.load() == 12; }));
  CHECK(pairs() == "a b 102; a c 3; b a 2");
}

TEST_CASE_METHOD(Fixture, "hostile ids and titles are recorded unchanged", "[recorder]") {
  const auto strings = [](const std::string& relative, const char* member) {
    std::vector<std::string> out;
    const auto path = shared_path(relative);
    if (!path) return out;
    std::string text = read_file(*path);
    json::Document document;
    REQUIRE(document.parse(text, json::Limits{16, 100000}));
    const auto list = member == nullptr ? document.root() : document.root()[member];
    for (const auto value : list.elements()) out.emplace_back(value.text());
    return out;
  };
  std::vector<items::Item> many;
  for (const auto& id : strings("corpora/hostile/hostile.json", "ids")) {
    if (ItemId::parse(id, "id")) many.push_back(item(id, "Title of " + id));
  }
  int number = 0;
  for (const auto& naughty : strings("corpora/BLNS/blns.json", nullptr)) {
    auto one = item("n" + std::to_string(number++), naughty);
    one.text = one.author = one.url = naughty;
    if (TagName::parse(naughty, "tags")) one.tags = {TagName::trusted(naughty)};
    if (ItemId::parse(naughty, "id")) many.push_back(item(naughty, naughty));
    many.push_back(std::move(one));
  }
  many.push_back(item("';DROP/**/TABLE/**/items;--x", "Bobby"));
  start();
  put_many(many);
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(Fixture, "every batch size gives the same result", "[recorder]") {
  for (const int batch : {1, 3, 10000}) {
    settings.recorder.batch_size = batch;
    start();
    for (int i = 0; i < 30; ++i)
      put(item("i" + std::to_string(i % 7), std::to_string(batch) + std::to_string(i)));
    remove("i3");
    REQUIRE(becomes_idle());
    stop();
    check_all();
  }
}

TEST_CASE_METHOD(Fixture, "the index is committed at most once per quarter of a second", "[recorder]") {
  start();
  put(item("first", "First"));
  REQUIRE(becomes_idle());
  const auto commits = [&] {  // of the newest week; all items belong to it
    const search::IndexFolder index(settings.search.index);
    return Xapian::Database(index.path_of(index.slices()->back())).get_revision();
  };
  const auto before = commits();
  const auto began = std::chrono::steady_clock::now();
  constexpr int kCommits = 8;
  for (int i = 0; commits() < before + kCommits; ++i) {
    put(item("i" + std::to_string(i % 20), "Version " + std::to_string(i)));
    REQUIRE(std::chrono::steady_clock::now() < began + std::chrono::minutes(1));
  }
  // The first one may come immediately.
  CHECK(std::chrono::steady_clock::now() - began >= (kCommits - 1) * recorder::kIndexCommitInterval);
  REQUIRE(becomes_idle());
  check_all();
}

TEST_CASE_METHOD(Fixture, "the largest allowed batch is acknowledged as a whole", "[recorder]") {
  settings.recorder.batch_size = 10000;
  std::vector<items::Item> many;
  for (int i = 0; i < 10500; ++i) many.push_back(item("i" + std::to_string(i), "Title"));
  put_many(many);
  start();
  CHECK(eventually([&] { return shared->report.entries.load() == 10500; }));
  check_all();
}

TEST_CASE_METHOD(Fixture, "an idle recorder stops on request", "[recorder]") {
  start();
  REQUIRE(becomes_idle());
  stop();  // a recorder that does not stop hangs the test
  CHECK(command("EXISTS", keys().partition(0).stream()).integer().value_or(0) == 1);
}

TEST_CASE_METHOD(Fixture, "a hundred thousand items are recorded", "[recorder][long]") {
  const auto count = static_cast<std::size_t>(repeat_count(10000, 100000));
  std::vector<items::Item> many;
  const std::string text =
      "The river rose two metres over night; the town closed its lower bridge and moved the market uphill.";
  for (std::size_t i = 0; i < count; ++i) {
    auto one = item("item-" + std::to_string(i), "Floods in spring " + std::to_string(i),
                    1700000000 + 60 * static_cast<std::int64_t>(i));
    one.text = text + " Report " + std::to_string(i % 977);
    one.tags = {TagName::trusted("tag" + std::to_string(i % 50)), TagName::trusted("news")};
    many.push_back(std::move(one));
  }
  put_many(many);
  const auto begin = std::chrono::steady_clock::now();
  start();
  REQUIRE(eventually([&] { return shared->report.entries.load() >= count / 5; }));
  REQUIRE(eventually([&] { return shared->report.entries.load() >= 3 * count / 5; }));
  REQUIRE(becomes_idle());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("recorded %zu items in %.2f s: %.0f items/s\n", count, took.count(),
              static_cast<double>(count) / took.count());
  check_all();
  // One at a time, like an editor.
  std::vector<double> waits;
  for (int i = 0; i < 100; ++i) {
    const auto done = shared->report.entries.load();
    const auto at = std::chrono::steady_clock::now();
    put(item("late-" + std::to_string(i), "Late", 1706000000 + i));
    REQUIRE(eventually([&] { return shared->report.entries.load() > done; }));
    waits.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - at).count());
  }
  std::sort(waits.begin(), waits.end());
  std::printf("one item is in the index after %.1f ms (median), %.1f ms (worst of 100)\n", waits[50],
              waits.back());
  REQUIRE(becomes_idle());
  check_all();
}
