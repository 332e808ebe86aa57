#include "scripts/ctl/import/source_state.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "scripts/ctl/import/job_file.h"
#include "tests/support/error_of.h"

using namespace freshet;
using namespace freshet::ctl;
using freshet::test::error_of;

namespace {

UnixSeconds at(std::int64_t s) { return UnixSeconds(seconds(s)); }

// A folder of this test, deleted at its end.
struct Folder {
  std::string path = "/tmp/freshet-import-test-" + std::to_string(getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const std::string& name, const std::string& text) const {
    std::ofstream(path + "/" + name) << text;
    return path + "/" + name;
  }
};

SourceState example() {
  SourceState state;
  state.source = "https://example.org/feed";
  state.target = "http://127.0.0.1:8081";
  state.rule = "path\n";
  state.ids = {{"/a", at(1)}, {"/b\"\n", at(2)}};
  state.documents["https://example.org/feed"] = {
      {"\"v1\"", "yesterday"}, {"/a"}, {"https://example.org/b.xml"}};
  return state;
}

}  // namespace

TEST_CASE("the state of an import is read as it was written", "[import]") {
  const Folder folder;
  const SourceState state = example();
  const std::string path = state_path(folder.path + "/new", state.source, state.target);
  CHECK(read_state(path, state.source, state.target).ids.empty());
  REQUIRE(write_state(path, state));
  CHECK(read_state(path, state.source, state.target) == state);
  CHECK(read_state(path, "another", state.target).ids.empty());
  CHECK(state_path(folder.path, state.source, "http://192.0.2.1:8081") !=
        state_path(folder.path, state.source, state.target));
  for (const char* damaged : {"", "{", "[]", R"({"ids":{}})"}) {
    CAPTURE(damaged);
    CHECK_FALSE(parse_source_state(damaged));
  }
  CHECK(error_of(write_state("/proc/none/state.json", state)).reason == "state_file");
}

TEST_CASE("other sources have the items of their state files", "[import]") {
  const Folder folder;
  const SourceState state = example();
  const std::string path = state_path(folder.path, state.source, state.target);
  const std::string another = folder.path + "/another.json";
  CHECK(ids_of_other_sources(folder.path + "/none/another.json", state.target)->empty());
  REQUIRE(write_state(path, state));
  CHECK(ids_of_other_sources(path, state.target)->empty());
  CHECK(ids_of_other_sources(another, state.target)->size() == 2);
  CHECK(ids_of_other_sources(another, "http://192.0.2.1:8081")->empty());

  const std::string damaged = folder.file("damaged.json", "{");
  CHECK(error_of(ids_of_other_sources(another, state.target)).detail ==
        damaged + ": is damaged; delete it and import its source again");
  CHECK(ids_of_other_sources(damaged, state.target)->size() == 2);  // its own

  const auto set_age = [&](const std::string& of, int days) {
    std::filesystem::last_write_time(
        of, std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * days));
  };
  set_age(damaged, 31);
  set_age(path, 29);
  CHECK(ids_of_other_sources(another, state.target)->size() == 2);
  set_age(path, 31);
  CHECK(ids_of_other_sources(another, state.target)->empty());
  REQUIRE(write_state(path, state));
  CHECK(ids_of_other_sources(another, state.target)->size() == 2);
}

TEST_CASE("one import at a time uses a folder of state files", "[import]") {
  const Folder folder;
  std::optional<StateLock> first(std::move(*StateLock::take(folder.path + "/new", milliseconds(0))));
  CHECK(error_of(StateLock::take(folder.path + "/new", milliseconds(1))).reason == "import_running");
  CHECK(StateLock::take(folder.path, milliseconds(0)));
  first.reset();
  CHECK(StateLock::take(folder.path + "/new", milliseconds(0)));
  CHECK(error_of(StateLock::take("/proc/none", milliseconds(0))).reason == "state_file");
}

TEST_CASE("items that are gone are deleted, up to a third and not old ones", "[import]") {
  const std::map<std::string, UnixSeconds> imported{{"a", at(10)}, {"b", at(20)}, {"c", at(30)}};
  const auto gone = [&](const std::map<std::string, UnixSeconds>& present, UnixSeconds oldest) {
    return decide_prune(imported, present, oldest).gone;
  };
  CHECK(gone(imported, at(0)).empty());
  CHECK(gone({{"b", at(1)}}, at(0)) == std::vector<std::string>{"a", "c"});
  CHECK(gone({{"b", at(1)}}, at(11)) == std::vector<std::string>{"c"});
  CHECK_FALSE(decide_prune(imported, {{"a", at(10)}, {"b", at(20)}}, at(0)).is_too_much);  // a third
  CHECK(decide_prune(imported, {{"a", at(10)}}, at(0)).is_too_much);
  CHECK(decide_prune(imported, {}, at(0)).is_too_much);
  CHECK_FALSE(decide_prune({}, {}, at(0)).is_too_much);
  std::map<std::string, UnixSeconds> eight;
  for (char id = 'a'; id < 'i'; ++id) eight.emplace(std::string(1, id), at(1));
  auto present = eight;
  present.erase("a");
  present.erase("b");
  CHECK_FALSE(decide_prune(eight, present, at(0)).is_too_much);
  present.erase("c");
  CHECK(decide_prune(eight, present, at(0)).is_too_much);
  // Old items, which are not considered, do not make room for more.
  for (int old = 0; old < 100; ++old) eight.emplace("old" + std::to_string(old), at(0));
  CHECK(decide_prune(eight, present, at(1)).considered == 8);
  CHECK(decide_prune(eight, present, at(1)).is_too_much);
}

TEST_CASE("an age is a number and a unit", "[import]") {
  CHECK(*parse_age("90d") == seconds(90 * 86400));
  CHECK(*parse_age("12h") == seconds(12 * 3600));
  CHECK(*parse_age("30m") == seconds(1800));
  for (const char* wrong : {"", "d", "0d", "-1d", "90", "90 d", "90y", "1000000d", "1.5d"}) {
    CAPTURE(wrong);
    CHECK(error_of(parse_age(wrong)).reason == "bad_option");
  }
}

TEST_CASE("a job sets the options that it names", "[import]") {
  const Folder folder;
  ImportOptions options;
  REQUIRE(read_job(folder.file("a.conf", R"(
# comment
feed = "https://example.org/feed"
id = "guid"
prune = true
limit_age = "90d"
hosts = ["a.example", "b.example"]
max_bytes = 1000
timeout = 5
)"),
                   options));
  CHECK(options.feed == "https://example.org/feed");
  CHECK(options.id == "guid");
  CHECK(options.prune);
  CHECK(options.limit_age == "90d");
  CHECK(options.hosts == std::vector<std::string>{"a.example", "b.example"});
  CHECK(options.max_bytes == 1000);
  CHECK(options.timeout_s == 5);
  CHECK(options.sitemap.empty());
  for (const char* wrong : {"fede = 1", "feed = 1", "prune = 1", "hosts = \"a\"", "hosts = [1]",
                            "timeout = 0", "max_bytes = \"1\"", "feed =", "[feed]"}) {
    CAPTURE(wrong);
    const auto error = error_of(read_job(folder.file("b.conf", wrong), options));
    CHECK(error.reason == "bad_job");
    CHECK(error.detail.starts_with(folder.path + "/b.conf: "));
  }
  CHECK(error_of(read_job(folder.path + "/none", options)).reason == "no_file");
}
