// SIGKILL at any moment: nothing acknowledged is lost, nothing is recorded twice.
#include <cstdio>
#include <random>

#include "tests/recorder/fixture.h"
#include "tests/recorder/sqlite_shell.h"
#include "tests/support/repeat_count.h"

using namespace freshet;
using namespace freshet::test;

namespace {

// A directory in memory if possible: a recorder's short life then processes many batches, while on
// disk it mostly waits.
std::filesystem::path memory_directory() {
  const std::filesystem::path shm = "/dev/shm";
  return access(shm.c_str(), W_OK) == 0 ? shm : std::filesystem::temp_directory_path();
}

struct KillFixture : Fixture {
  explicit KillFixture(const std::filesystem::path& in) : Fixture(shared_server(), in) {}
  std::mt19937 random;
  int number = 0;
  std::vector<std::string> done;  // of readers, in the format of interactions()

  int below(int end) { return std::uniform_int_distribution<int>(0, end - 1)(random); }
  items::Item any_item() {
    auto out = item("item-" + std::to_string(below(60)), "Write " + std::to_string(number++),
                    1700000000 + below(3 * 7 * 86400));
    out.hidden = below(6) == 0;
    out.text = std::string(static_cast<std::size_t>(below(3000)), 'x');
    for (int i = below(4); i > 0; --i) out.tags.push_back(TagName::trusted("tag" + std::to_string(i)));
    return out;
  }
  void write_some() {
    for (int i = below(8); i > 0; --i) {
      if (below(5) == 0) remove("item-" + std::to_string(below(60)));
      std::map<std::string, items::Item> some;
      for (int k = below(60); k > 0; --k) {
        auto one = any_item();
        some[one.id.str()] = std::move(one);
      }
      std::vector<items::Item> many;
      for (auto& [id, one] : some) many.push_back(std::move(one));
      put_many(many);
      for (int k = below(20); k > 0; --k) {
        const std::string reader = "reader-" + std::to_string(below(9)),
                          one = "item-" + std::to_string(below(60));
        interact(reader, one, number);
        done.push_back(reader + " " + one + " l " + std::to_string(number++));
      }
    }
  }
};

struct KillCase {
  const char* name;
  bool on_disk;
  int kills;
  int longest_life_us;
  int partitions;
};

}  // namespace

TEST_CASE("a recorder killed repeatedly at random moments records every write once", "[recorder][long]") {
  const KillCase each = GENERATE(KillCase{"in memory", false, repeat_count(25, 250), 30000, 1},
                                 KillCase{"in sixteen streams", false, repeat_count(25, 250), 30000, 16},
                                 KillCase{"on disk", true, repeat_count(6, 30), 150000, 1});
  KillFixture f(each.on_disk ? std::filesystem::temp_directory_path() : memory_directory());
  const auto seed = std::random_device()();
  INFO(each.name << ", seed " << seed);
  f.random.seed(seed);
  f.settings.recorder.batch_size = (each.on_disk ? 10 : 1) + f.below(20);
  f.use_partitions(each.partitions);
  int unfinished = 0, torn = 0;
  for (int kill = 0; kill < each.kills; ++kill) {
    f.start_process();
    f.write_some();
    // Let some recorders make progress, however busy the machine is.
    const auto before = f.shared->report.entries.load();
    if (kill % 5 == 0)
      REQUIRE(eventually([&] { return f.shared->report.entries.load() > before || f.backlog() == 0; }));
    std::this_thread::sleep_for(std::chrono::microseconds(f.below(each.longest_life_us)));
    f.kill_process();
    unfinished += f.backlog() > 0;
    torn += f.pending() > 0;
  }
  const auto done = f.shared->report.entries.load();
  std::printf(
      "%s: %d kills (seed %u, batches of %d), %d left entries, %d within a batch; %llu entries done "
      "meanwhile\n",
      each.name, each.kills, seed, f.settings.recorder.batch_size, unfinished, torn,
      static_cast<unsigned long long>(done));
  // Otherwise the kills came at the wrong moments.
  CHECK(torn > each.kills / 25);
  CHECK(done > 0);
  f.start_process();
  REQUIRE(f.becomes_idle());
  f.stop();
  f.check_all();
  std::sort(f.done.begin(), f.done.end());
  CHECK(f.done.size() > 100);
  CHECK(f.interactions() == f.done);
  CHECK(SqliteShell(f.settings.recorder.database).run("PRAGMA integrity_check") == "ok");
#ifndef __SANITIZE_ADDRESS__  // Xapian 1.4's check() deletes one of its tables through the wrong type
  for (const auto& entry : std::filesystem::directory_iterator(f.settings.search.index)) {
    if (entry.is_directory()) CHECK(Xapian::Database::check(entry.path().string(), 0, nullptr) == 0);
  }
#endif
}
