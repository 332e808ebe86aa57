#include "fcgi/handlers/last_lists.h"

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace freshet;
using handlers::LastLists;

namespace {

hot::ListQuery query_for(const std::string& tag = {}) {
  hot::ListQuery query;
  query.tag = TagName::trusted(tag);
  return query;
}

std::string json_of(const std::shared_ptr<const hot::HotList>& list) {
  return list ? list->first(100) : std::string("none");
}

// Runs `work` in another process, as a worker.
void in_worker(const std::function<void()>& work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

}  // namespace

TEST_CASE("a list that one worker stored is what all workers load", "[last_lists]") {
  LastLists lists;
  CHECK(json_of(lists.load({})) == "none");
  in_worker([&] { lists.store({}, hot::HotList("[1]")); });
  CHECK(json_of(lists.load({})) == "[1]");
  in_worker([&] { lists.store({}, hot::HotList("[2,\n3]", true)); });
  CHECK(json_of(lists.load({})) == "[2,\n3]");
  CHECK(lists.load({})->below_floor());
  lists.store({}, hot::HotList("[2,\n3]", false));
  CHECK_FALSE(lists.load({})->below_floor());
  lists.store({}, hot::HotList("[]"));
  CHECK(json_of(lists.load({})) == "[]");
}

TEST_CASE("every query has a list of its own", "[last_lists]") {
  LastLists lists;
  std::vector<hot::ListQuery> queries;
  for (const hot::Model& model : hot::kModels) {
    for (const auto mode : {hot::ViewsMode::kAccumulate, hot::ViewsMode::kCurrent}) {
      if (model.is_computed() && mode == hot::ViewsMode::kCurrent) continue;  // no such list
      for (const int hours : {0, 24, 72, 168}) queries.push_back({&model, mode, seconds{3600 * hours}, {}});
    }
  }
  queries.push_back(query_for("a"));
  queries.push_back(query_for("0 a"));
  for (std::size_t i = 0; i < queries.size(); ++i)
    lists.store(queries[i], hot::HotList("[" + std::to_string(i) + "]"));
  for (std::size_t i = 0; i < queries.size(); ++i)
    CHECK(json_of(lists.load(queries[i])) == "[" + std::to_string(i) + "]");
}

TEST_CASE("lists of tags replace each other, the least recently served first, but no other list",
          "[last_lists]") {
  LastLists lists;
  lists.store({}, hot::HotList("[1]"));
  lists.store(query_for("kept"), hot::HotList("[2]"));
  lists.store(query_for("first"), hot::HotList("[3]"));
  for (std::size_t i = 0; i < LastLists::kMaxTagged - 2; ++i) {
    lists.store(query_for("tag" + std::to_string(i)), hot::HotList("[4]"));
    lists.store(query_for("kept"), hot::HotList("[2]"));
    lists.store(query_for("empty" + std::to_string(i)), hot::HotList("[]"));  // anyone can name it
  }
  CHECK(json_of(lists.load(query_for("first"))) == "[3]");
  lists.store(query_for("one more"), hot::HotList("[5]"));
  CHECK(json_of(lists.load(query_for("first"))) == "none");
  CHECK(json_of(lists.load(query_for("kept"))) == "[2]");
  CHECK(json_of(lists.load(query_for("one more"))) == "[5]");
  CHECK(json_of(lists.load({})) == "[1]");
}

TEST_CASE("a list that is too long is not stored", "[last_lists]") {
  LastLists lists;
  lists.store({}, hot::HotList("[" + std::string(LastLists::kMaxBytes - 2, '1') + "]"));
  CHECK(json_of(lists.load({})).size() == LastLists::kMaxBytes);
  lists.store(query_for("a"), hot::HotList("[" + std::string(LastLists::kMaxBytes - 1, '1') + "]"));
  CHECK(json_of(lists.load(query_for("a"))) == "none");
}

TEST_CASE("no list survives the news that an item was hidden or removed", "[last_lists]") {
  LastLists lists;
  lists.store({}, hot::HotList("[1]"));
  lists.store(query_for("a"), hot::HotList("[2]"));
  in_worker([&] { lists.clear(); });
  CHECK(json_of(lists.load({})) == "none");
  CHECK(json_of(lists.load(query_for("a"))) == "none");
  lists.store(query_for("a"), hot::HotList("[2]"));
  CHECK(json_of(lists.load(query_for("a"))) == "[2]");
}
