// kill -9 at any moment: nothing that was acknowledged is lost, nothing is there twice.
#include <cstdio>
#include <random>

#include "tests/recorder/fixture.h"
#include "tests/recorder/sqlite_shell.h"

using namespace freshet;
using namespace freshet::test;

namespace {

constexpr int kKills = 200;
constexpr int kLongestLifeMicroseconds = 60000;

struct Killed : Fixture {
  std::mt19937 random;
  int number = 0;

  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); }
  feed::Item any_item() {
    auto out = item("item-" + std::to_string(below(60)), "Write " + std::to_string(number++),
                    1700000000 + below(3 * 7 * 86400));
    out.hidden = below(6) == 0;
    out.text = std::string(static_cast<std::size_t>(below(3000)), 'x');
    for (int i = below(4); i > 0; --i) out.tags.push_back(TagName::trusted("tag" + std::to_string(i)));
    return out;
  }
  void write_some() {
    for (int i = below(4); i > 0; --i) {
      if (below(5) == 0) remove("item-" + std::to_string(below(60)));
      std::map<std::string, feed::Item> some;
      for (int k = below(30); k > 0; --k) {
        auto one = any_item();
        some[one.id.str()] = std::move(one);
      }
      std::vector<feed::Item> many;
      for (auto& [id, one] : some) many.push_back(std::move(one));
      put_many(many);
    }
  }
};

}  // namespace

TEST_CASE_METHOD(Killed,
                 "a recorder that is killed two hundred times at random moments records every write once",
                 "[recorder]") {
  const bool hash_tags = GENERATE(false, true);
  const auto seed = std::random_device()();
  random.seed(seed);
  settings.redis.hash_tags = hash_tags;
  settings.recorder.batch = 1 + below(20);
  open();
  const int kills = hash_tags ? kKills / 4 : kKills;
  int unfinished = 0, torn = 0;
  for (int kill = 0; kill < kills; ++kill) {
    run_process();
    write_some();
    std::this_thread::sleep_for(std::chrono::microseconds(below(kLongestLifeMicroseconds)));
    kill_process();
    unfinished += backlog() > 0;
    torn += pending() > 0;
  }
  std::printf(
      "killed %d times (hash tags %d, seed %u, batches of %d): %d with entries left, %d within a batch, "
      "%llu entries done meanwhile\n",
      kills, hash_tags, seed, settings.recorder.batch, unfinished, torn,
      static_cast<unsigned long long>(shared->report.entries.load()));
  INFO("seed " << seed);
  CHECK(torn > kills / 10);  // else the kills came at the wrong moments
  CHECK(shared->report.entries.load() > 0);
  run_process();
  REQUIRE(settles());
  stop();
  check_all();
  CHECK(SqliteShell(settings.recorder.database).run("PRAGMA integrity_check") == "ok");
  for (const auto& entry : std::filesystem::directory_iterator(settings.search.index)) {
    if (entry.is_directory()) CHECK(Xapian::Database::check(entry.path().string(), 0, nullptr) == 0);
  }
}
