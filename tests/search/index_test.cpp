// The index writer: what it stores and where, and which failures it survives.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <map>
#include <set>

#include "core/search/index_folder.h"
#include "core/search/time_slices.h"
#include "tests/search/corpus.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::test;

namespace {

struct Fixture {
  TemporaryFolder folder;
  Settings settings;
  Fixture() { settings.search.index = folder / "index"; }
  std::vector<search::TimeSlice> partitions() const {
    return search::IndexFolder(settings.search.index).slices().value();
  }
  // Id → date of every document, read directly; fails if an id occurs twice.
  std::map<std::string, std::int64_t> contents() const {
    std::map<std::string, std::int64_t> all;
    const Xapian::Database database(settings.search.index);
    for (auto each = database.postlist_begin(""); each != database.postlist_end(""); ++each) {
      const std::string key = database.get_document(*each).get_value(search::kOrderSlot);
      const search::OrderKey read = search::parse_order_key(key);
      CHECK(all.emplace(read.item, read.published.time_since_epoch().count()).second);
    }
    return all;
  }
};

// Runs `work` in a child process, which exits afterwards.
template <class Work>
pid_t fork_child(Work work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    work();
    _exit(0);
  }
  return child;
}

int wait_for_exit(pid_t child) {
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE_METHOD(Fixture, "an item is found by its words once committed, and not before", "[search]") {
  const auto index = open_index(settings);
  require_ok(index->put(item("a", "Blue whales")));
  CHECK(search_ids(settings, "whales").empty());
  require_ok(index->commit());
  CHECK(search_ids(settings, "whales") == std::vector<std::string>{"a"});
  CHECK(index->documents() == 1);
  require_ok(index->put(item("a", "Grey seals")));
  require_ok(index->commit());
  CHECK(search_ids(settings, "whales").empty());
  CHECK(search_ids(settings, "seals") == std::vector<std::string>{"a"});
  CHECK(index->documents() == 1);
}

TEST_CASE_METHOD(Fixture, "a hidden item leaves the index and returns when it is unhidden", "[search]") {
  items::Item whale = item("a", "whale");
  write_index(settings, {whale, item("b", "whale")});
  whale.hidden = true;
  write_index(settings, {whale});
  CHECK(search_ids(settings, "whale") == std::vector<std::string>{"b"});
  whale.hidden = false;
  write_index(settings, {whale});
  CHECK(search_ids(settings, "whale").size() == 2);
}

TEST_CASE_METHOD(Fixture, "a removed item is gone, and removing it again is not an error", "[search]") {
  write_index(settings, {item("a", "whale")});
  const auto index = open_index(settings);
  for (int i = 0; i < 2; ++i) {
    require_ok(index->remove(ItemId::trusted("a")));
    require_ok(index->commit());
    CHECK(contents().empty());
  }
}

TEST_CASE_METHOD(Fixture, "an item whose date changes moves to another slice and stays unique", "[search]") {
  const auto index = open_index(settings);
  require_ok(index->put(item("other", "whale", kNow - 70 * kDay)));
  for (const int days : {0, 70, 3, 400, 0, 8}) {
    require_ok(index->put(item("a", "whale", kNow - days * kDay)));
    require_ok(index->commit());
    const auto all = contents();
    REQUIRE(all.size() == 2);
    CHECK(all.at("a") == (kNow - days * kDay).time_since_epoch().count());
  }
  require_ok(index->put(item("a", "whale", kNow - 50 * kDay)));  // twice in one batch
  require_ok(index->put(item("a", "whale", kNow - 90 * kDay)));
  require_ok(index->commit());
  CHECK(contents().size() == 2);
}

TEST_CASE_METHOD(Fixture, "slices do not overlap and stay few, however the dates are scattered", "[search]") {
  RandomItems random(1);
  const auto index = open_index(settings);
  std::map<std::string, std::int64_t> expected;
  for (int batch = 0; batch < 30; ++batch) {
    for (int i = 0; i < 20; ++i) {
      items::Item any = random.next();
      any.published_at = UnixSeconds{seconds{static_cast<std::int64_t>(random.below(253402300799ULL))}};
      if (random.below(2) == 0) any.published_at = kNow - kDay * static_cast<std::int64_t>(random.below(500));
      require_ok(index->put(any));
      expected[any.id.str()] = any.published_at.time_since_epoch().count();
    }
    require_ok(index->commit());
    const auto all = partitions();
    REQUIRE(all.size() <= search::kMaxSlices);
    for (std::size_t i = 1; i < all.size(); ++i) REQUIRE(all[i - 1].end <= all[i].begin);
  }
  CHECK(contents() == expected);
  CHECK(index->documents() == expected.size());
}

TEST_CASE_METHOD(Fixture, "rolled back changes are gone, whether the writer continues or closes",
                 "[search]") {
  write_index(settings, {item("a", "whale")});
  {
    const auto index = open_index(settings);
    require_ok(index->put(item("b", "whale", kNow - 100 * kDay)));
    require_ok(index->remove(ItemId::trusted("a")));
    index->rollback();
    require_ok(index->put(item("c", "whale")));
    require_ok(index->commit());
    CHECK(search_ids(settings, "whale").size() == 2);
    require_ok(index->put(item("d", "whale")));  // never committed
  }
  CHECK(search_ids(settings, "whale").size() == 2);
}

TEST_CASE_METHOD(Fixture, "only one writer can be open", "[search]") {
  auto first = open_index(settings);
  const auto second = search::SearchIndex::open(settings.search);
  REQUIRE_FALSE(second.has_value());
  CHECK(error_of(second).code == ErrorCode::kUnavailable);
  CHECK(error_of(second).reason == "index_locked");
  first.reset();
  CHECK(search::SearchIndex::open(settings.search).has_value());
}

TEST_CASE_METHOD(Fixture, "after a writer was killed at any time, repeating the batch completes the index",
                 "[search]") {
  RandomItems random(2);
  write_index(settings, {item("first", "whale")});
  for (int kill_after_us = 0; kill_after_us < 60000; kill_after_us += 2000) {
    std::vector<items::Item> batch;
    for (int i = 0; i < 40; ++i) {
      items::Item any = random.next();
      any.id = ItemId::trusted("item" + std::to_string(random.below(200)));  // many items move
      batch.push_back(any);
    }
    const pid_t child = fork_child([&] {
      auto index = search::SearchIndex::open(settings.search);
      for (;;) {
        for (const items::Item& each : batch) static_cast<void>((*index)->put(each));
        static_cast<void>((*index)->commit());
      }
    });
    usleep(static_cast<useconds_t>(kill_after_us));  // deliberately at a random moment
    ::kill(child, SIGKILL);
    CHECK(WIFSIGNALED(wait_for_exit(child)));
    write_index(settings, batch);
    std::map<std::string, std::int64_t> latest;
    for (const items::Item& each : batch)
      latest[each.id.str()] = each.published_at.time_since_epoch().count();
    const auto all = contents();
    for (const auto& [id, date] : latest) REQUIRE(all.at(id) == date);
  }
}

TEST_CASE_METHOD(Fixture, "a full disk is an error, and the same writer continues once there is space",
                 "[search]") {
  write_index(settings, {item("a", "whale")});
  const pid_t child = fork_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    auto index = search::SearchIndex::open(settings.search);
    RandomItems random(3);
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = limit.rlim_cur;
    limit.rlim_cur = 30000;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    bool failed = false;
    for (int i = 0; i < 3000 && !failed; ++i) failed = !(*index)->put(random.next());
    if (!failed) {
      const Result<void> committed = (*index)->commit();
      failed = !committed && committed.error().reason == "index_io";
    }
    if (!failed) _exit(1);
    (*index)->rollback();
    limit.rlim_cur = before;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    if (!(*index)->put(item("b", "whale"))) _exit(2);
    if (!(*index)->commit()) _exit(3);
  });
  CHECK(WEXITSTATUS(wait_for_exit(child)) == 0);
  CHECK(search_ids(settings, "whale").size() == 2);
}

TEST_CASE_METHOD(Fixture, "ids of 128 bytes and tags with any letters are kept distinct", "[search]") {
  const std::string long_id(128, 'x'), other = std::string(127, 'x') + "y";
  write_index(settings, {item(long_id, "whale", kNow, {"Meer", "meer"}),
                         item(other, "whale", kNow, {std::string(128, 'T')})});
  CHECK(contents().size() == 2);
  const auto index = open_index(settings);
  require_ok(index->remove(ItemId::trusted(other)));
  require_ok(index->commit());
  CHECK(contents().count(long_id) == 1);
}

TEST_CASE_METHOD(Fixture, "an unreadable index is not replaced by an empty one", "[search]") {
  write_index(settings, {item("a", "whale")});
  std::filesystem::remove(std::filesystem::path(settings.search.index) / "XAPIANDB");
  std::filesystem::create_directory(std::filesystem::path(settings.search.index) / "XAPIANDB");
  CHECK_FALSE(search::SearchIndex::open(settings.search).has_value());
}

TEST_CASE_METHOD(Fixture, "words are found while an index without stems of search.stemmer is rebuilt",
                 "[search]") {
  write_index(settings, {item("many", "elections"), item("old", "whale", kNow - 50 * kDay)});
  settings.search.stemmer = "english";
  CHECK(search_ids(settings, "elections") == std::vector<std::string>{"many"});
  const auto index = open_index(settings);
  CHECK(index->version() != index->current_version());
  require_ok(index->begin_rebuild());
  require_ok(index->put(item("new", "elections", kNow - kDay)));
  require_ok(index->commit());
  CHECK(search_ids(settings, "elections") == std::vector<std::string>{"many", "new"});
  for (const items::Item& each : {item("many", "elections"), item("old", "whale", kNow - 50 * kDay)})
    require_ok(index->put_rebuilt(each));
  require_ok(index->finish_rebuild());
  CHECK(index->version() == index->current_version());
  CHECK(search_ids(settings, "election").size() == 2);
  CHECK(search_ids(settings, "whales").size() == 1);
}

TEST_CASE_METHOD(Fixture, "an index with documents of two stemmers is rebuilt, also if the setting goes back",
                 "[search]") {
  settings.search.stemmer = "english";
  write_index(settings, {item("old", "whales", kNow - 50 * kDay)});
  CHECK(search_ids(settings, "whale").size() == 1);
  settings.search.stemmer = "german";
  {
    const auto index = open_index(settings);
    require_ok(index->put(item("new", "whales", kNow - 50 * kDay)));
    require_ok(index->put(item("newest", "whales")));
    require_ok(index->commit());
  }
  settings.search.stemmer = "english";
  CHECK(search_ids(settings, "whales").size() == 3);
  CHECK(search_ids(settings, "whale").empty());  // without stems until then
  const auto index = open_index(settings);
  CHECK(index->version() != index->current_version());
}

TEST_CASE_METHOD(Fixture, "time slices of two versions are merged into one that is marked as mixed",
                 "[search]") {
  const auto write_old_weeks = [&](const char* stemmer, std::vector<int> weeks) {
    settings.search.stemmer = stemmer;
    std::vector<items::Item> items;
    for (const int week : weeks)
      items.push_back(item(stemmer + std::to_string(week), "whales", kNow - week * 7 * kDay));
    write_index(settings, items);
  };
  write_old_weeks("english", {60, 50, 40, 30, 20});
  write_old_weeks("german", {50, 10});  // changes the second slice and adds one, so the two oldest are merged
  const search::IndexFolder index(settings.search.index);
  const std::string version =
      Xapian::Database(index.path_of(partitions().front())).get_metadata(search::kVersionKey);
  CHECK(partitions().size() == search::kMaxSlices);
  CHECK(version == search::mixed_version(search::terms_version("english"), search::terms_version("german")));
}

TEST_CASE("a mixed version has stems if both versions have them", "[search]") {
  CHECK(search::has_stems_of(search::mixed_version("1 stemmer english", "2 stemmer english"), "english"));
  CHECK_FALSE(
      search::has_stems_of(search::mixed_version("1 stemmer german", "1 stemmer english"), "english"));
  CHECK_FALSE(search::has_stems_of(search::mixed_version("1", "1 stemmer english"), "english"));
}
