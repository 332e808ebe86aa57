// Fixtures of the recorder's tests: a private Redis, a recorder in a thread or in its own process,
// and checks of everything it stores.
#pragma once

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/database/database.h"
#include "core/items/item_store.h"
#include "core/recorder/consumer_groups.h"
#include "core/recorder/recorder.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "core/redis/scripts.h"
#include "core/search/search_schema.h"
#include "tests/support/redis_server.h"

namespace freshet::test {

using redis::run_sync;

#ifdef __SANITIZE_THREAD__
constexpr std::chrono::seconds kPatience{600};
#else
constexpr std::chrono::seconds kPatience{60};
#endif

// Waits until `condition` holds. Returns false if it does not within kPatience.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return condition();
}

class Folder {
 public:
  explicit Folder(const std::filesystem::path& in = std::filesystem::temp_directory_path()) {
    std::string pattern = (in / "freshet-recorder-XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary directory");
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Shared between the test and a recorder in another process.
struct Shared {
  RecorderReport report;
  std::atomic<bool> stop{false};
};

class SharedMemory {
 public:
  SharedMemory() {
    void* const at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("no shared memory");
    shared_ = new (at) Shared;
  }
  ~SharedMemory() { munmap(shared_, sizeof(Shared)); }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  Shared* operator->() const { return shared_; }

 private:
  Shared* shared_;
};

// One server per test program; each Fixture starts with an empty database. The socket is open to
// all users, because one test runs a recorder as another user.
inline RedisServer& shared_server() {
  static RedisServer one({"--unixsocketperm", "777"});
  return one;
}

// Runs a recorder in a thread or in its own process.
struct RecorderHarness {
  Settings settings;
  redis::Endpoint endpoint;
  SharedMemory shared;
  std::thread thread;
  pid_t child = 0;
  readers::ReaderPseudonyms pseudonyms{
      [](const ReaderId& reader) { return "u" + std::string(reader.view().rbegin(), reader.view().rend()); },
      [](const ReaderId& reader) { return "e" + std::string(reader.view().rbegin(), reader.view().rend()); }};
  milliseconds settle_time{0};  // of erasures
  milliseconds lease = recorder::kLeaseTtl;

  explicit RecorderHarness(redis::Endpoint at) : endpoint(std::move(at)) {}
  ~RecorderHarness() { stop(); }

  void start() {
    shared->stop.store(false);
    thread = std::thread([this] { record(); });
  }
  // Starts the recorder in its own process, after `setup`.
  void start_process(const std::function<void()>& setup = [] {}) {
    shared->stop.store(false);
    child = fork();
    if (child != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setup();
    _exit(record());
  }
  int record() {
    return recorder::Recorder(settings, endpoint, shared->report, pseudonyms, settle_time, lease)
        .run(shared->stop);
  }
  void kill_process() {
    ::kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    child = 0;
  }
  void stop() {
    shared->stop.store(true);
    if (thread.joinable()) thread.join();
    if (child != 0) {
      ::kill(child, SIGCONT);  // a failed test may have left it stopped
      waitpid(child, nullptr, 0);
    }
    child = 0;
  }
  bool waits_for(RecorderPauseReason reason) {
    return eventually([&] {
      return shared->report.state.load() == RecorderState::kPaused && shared->report.reason.load() == reason;
    });
  }
};

struct Fixture : RecorderHarness {
  RedisServer& server;
  Folder folder;
  redis::BlockingRedis redis{server.endpoint(), milliseconds(10000), redis::kAllScripts};
  std::unique_ptr<items::RedisItemStore> items;
  std::map<std::string, items::Item> model;  // acknowledged state

  explicit Fixture(RedisServer& on = shared_server(),
                   const std::filesystem::path& in = std::filesystem::temp_directory_path())
      : RecorderHarness(on.endpoint()), server(on), folder(in) {
    server.flush_all();
    settings.recorder.database = (folder.path() / "items.db").string();
    settings.spool.path = (folder.path() / "spool").string();
    settings.search.index = (folder.path() / "index").string();
    open();
  }
  ~Fixture() { stop(); }
  // Call this again after changing `settings`.
  void open() { items = std::make_unique<items::RedisItemStore>(redis, settings, keys()); }
  redis::Keys keys() const { return redis::Keys(settings.redis); }
  // Splits articles, readers and streams into `count` partitions, as in a cluster, but on the one
  // server.
  void use_partitions(int count) {
    settings.redis.url = count == 1 ? "redis://127.0.0.1" : "redis+cluster://127.0.0.1:1";
    settings.redis.partitions = count;
    open();
  }

  // --- The recorder

  std::string recorded_data_loss() { return recorder::recorded_data_loss(redis, keys()).value(); }
  // Waits until everything is recorded and the recorder is healthy.
  bool becomes_idle() {
    return eventually(
        [&] { return backlog() == 0 && shared->report.state.load() == RecorderState::kRunning; });
  }

  // --- Items

  static items::Item item(const std::string& id, const std::string& title,
                          std::int64_t published = 1700000000) {
    items::Item out;
    out.id = ItemId::trusted(id);
    out.title = title;
    out.published_at = UnixSeconds{seconds{published}};
    return out;
  }
  void put(const items::Item& one) { put_many({one}); }
  void put_many(const std::vector<items::Item>& many) {
    const auto ok = run_sync(items->put_many(many));
    INFO((ok ? "" : ok.error().detail));
    REQUIRE(ok);
    for (const auto& each : many) model[each.id.str()] = each;
  }
  void remove(const std::string& id) {
    REQUIRE(run_sync(items->remove(ItemId::trusted(id))));
    model.erase(id);
  }

  // --- Redis

  template <class... Args>
  redis::Reply command(const Args&... args) {
    redis::Pipeline one;
    one.add(args...);
    auto replies = redis.call(one);
    if (!replies) return {};
    return std::move(replies->front());
  }
  // Restarts Redis after kill -9, with its persisted data.
  void restart_redis(const std::function<void()>& meanwhile = [] {}) {
    server.kill();
    meanwhile();
    server.start();
    command("PING");  // fails, because our connection is to the old process
  }
  // Total over all streams; -1 if one cannot be read.
  std::int64_t backlog() {
    const redis::Keys names = keys();
    std::int64_t sum = 0;
    for (const redis::PartitionKeys& each : names.partitions()) {
      const auto length = command("XLEN", each.stream()).integer();
      if (!length) return -1;
      sum += *length;
    }
    return sum;
  }
  std::int64_t pending() {
    const redis::Keys names = keys();
    std::int64_t sum = 0;
    for (const redis::PartitionKeys& each : names.partitions()) {
      const auto reply = command("XPENDING", each.stream(), "recorder");
      const auto count = reply[0].integer();
      if (!count) return -1;
      sum += *count;
    }
    return sum;
  }

  // --- Readers

  void interact(const std::string& reader, const std::string& one, std::int64_t at, char kind = 'l') {
    const std::string letter(1, kind), second = std::to_string(at);
    command("XADD", keys().partition_for(reader).stream(), "*", "op", "interaction", "reader", reader, "item",
            one, "kind", letter, "at", second);
  }
  // "reader item letter at" of every recorded interaction, sorted.
  std::vector<std::string> interactions() const {
    std::vector<std::string> out;
    const auto database = open_database();
    REQUIRE(database->readers().for_each_interaction([&](const readers::ReaderEvent& each) {
      out.push_back(each.reader.str() + " " + each.item.str() + " " + readers::kind_of(each.kind).letter +
                    " " + std::to_string(each.at.time_since_epoch().count()));
      return Result<void>();
    }));
    std::sort(out.begin(), out.end());
    return out;
  }

  // --- Recorded data

  std::unique_ptr<database::Database> open_database() const {
    auto database = database::Database::open(settings.recorder.database, database::Database::Mode::kRead);
    INFO((database ? "" : database.error().detail));
    REQUIRE(database);
    return std::move(*database);
  }
  std::map<std::string, items::Item> recorded() const {
    std::map<std::string, items::Item> out;
    const auto database = open_database();
    std::int64_t rows = 0;
    REQUIRE(database->for_each_item([&](const items::Item& each) {
      ++rows;
      out[each.id.str()] = each;
      return Result<void>();
    }));
    CHECK(rows == static_cast<std::int64_t>(out.size()));
    return out;
  }
  // Checks that nothing is left to record, and that database and index match the model exactly.
  void check_all() {
    CHECK(backlog() == 0);
    CHECK(pending() == 0);
    check_database();
    check_index();
  }
  void check_database() const;
  void check_index() const;
};

inline void Fixture::check_database() const {
  const auto rows = recorded();
  CHECK(rows.size() == model.size());
  CHECK(static_cast<std::int64_t>(rows.size()) == open_database()->item_count());
  for (const auto& [id, expected] : model) {
    INFO("item " << id << ": " << expected.title);
    const auto row = rows.find(id);
    REQUIRE(row != rows.end());
    INFO("is: " << row->second.title);
    CHECK(row->second == expected);
  }
}

inline void Fixture::check_index() const {
  const auto stemmer = search::make_stemmer(settings.search.stemmer);
  REQUIRE(stemmer);
  const Xapian::Database index(settings.search.index);
  const auto terms = [](const Xapian::Document& document) {
    std::map<std::string, Xapian::termcount> out;
    for (auto term = document.termlist_begin(); term != document.termlist_end(); ++term)
      out[*term] = term.get_wdf();
    return out;
  };
  Xapian::doccount shown = 0;
  for (const auto& [id, expected] : model) {
    if (expected.hidden) continue;
    ++shown;
    INFO("item " << id << ": " << expected.title);
    const std::string term = search::id_term(expected.id);
    REQUIRE(index.get_termfreq(term) == 1);
    const Xapian::Document is = index.get_document(*index.postlist_begin(term));
    const Xapian::Document wanted = search::make_document(expected, *stemmer);
    CHECK(terms(is) == terms(wanted));
    CHECK(is.get_value(search::kOrderSlot) == wanted.get_value(search::kOrderSlot));
  }
  CHECK(index.get_doccount() == shown);
}

}  // namespace freshet::test
