#include "core/redis/background.h"

#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "core/redis/redis_connection.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_redis.h"
#include "tests/support/log_file.h"
#include "tests/support/loop_thread.h"
#include "tests/support/redis_server.h"

using namespace freshet;
using namespace freshet::test;
using namespace freshet::redis;
using namespace std::chrono_literals;

namespace {

constexpr std::array kScripts{Script{"count", "return 1", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"}};

// A server that records the SET keys it receives and can be told to refuse one or to go down.
class FakeStore {
 public:
  std::optional<std::string> answer(const FakeRedis::Command& command) {
    const std::lock_guard lock(mutex_);
    if (down_) return std::nullopt;
    if (command[0] == "PING") return "+PONG\r\n";
    if (command[0] == "SCRIPT") {
      sources_.push_back(command[2]);
      return "$0\r\n\r\n";
    }
    if (command[0] == "BAD") return "-ERR refused for good\r\n";
    keys_.push_back(command[1]);
    if (command[1] == refused_) return "-NOPERM this user has no permissions to run it\r\n";
    return "+OK\r\n";
  }
  void set_down(bool value) {
    const std::lock_guard lock(mutex_);
    down_ = value;
  }
  void refuse(const std::string& key) {  // "": none
    const std::lock_guard lock(mutex_);
    refused_ = key;
  }
  std::ptrdiff_t count_of(const std::string& key) {
    const std::lock_guard lock(mutex_);
    return std::ranges::count(keys_, key);
  }
  std::vector<std::string> keys() {
    const std::lock_guard lock(mutex_);
    return keys_;
  }
  std::vector<std::string> sources() {
    const std::lock_guard lock(mutex_);
    return sources_;
  }

 private:
  std::mutex mutex_;
  bool down_ = false;
  std::string refused_;
  std::vector<std::string> keys_, sources_;
};

std::set<std::string> distinct(const std::vector<std::string>& keys) { return {keys.begin(), keys.end()}; }

SpoolRecord set_event(const std::string& key) { return SpoolRecord("SET").add(key); }

// Replays spooled events as commands over another connection to the same server.
class Writer {
 public:
  Writer(const std::filesystem::path& directory,
         BackgroundOptions options = {.spool_directory = {}, .scan_interval = 10ms}) {
    options.spool_directory = directory / "spool";
    options.apply = [this](const auto& fields) { return apply(fields); };
    thread_.run_on_loop([&] {
      ConnectionOptions link;
      link.endpoint.unix_path = (directory / "r").string();
      link.timeout = 5s;  // long enough that slow builds do not send a batch twice
      link.breaker = {.failure_threshold = 3, .open_delay = 5ms, .closed_delay = 5ms, .max_delay = 20ms};
      replay_connection_ = std::make_unique<RedisConnection>(thread_.loop(), link, kScripts);
      replay_connection_->connect();
      writer_ = std::make_unique<BackgroundWriter>(
          thread_.loop(), std::make_unique<RedisConnection>(thread_.loop(), link, kScripts), options);
      writer_->start();
    });
  }
  ~Writer() {
    thread_.run_on_loop([&] {
      replay_connection_->close();
      writer_.reset();
      replay_connection_.reset();
    });
    thread_.stop();
  }
  bool post(const std::string& key) {
    return thread_.run_on_loop([&] {
      Pipeline pipeline;
      pipeline.add("SET", key, "1");
      return writer_->post(std::move(pipeline), {set_event(key)});
    });
  }
  bool spool(const SpoolRecord& event) {
    return thread_.run_on_loop([&] { return writer_->spool(event).has_value(); });
  }
  template <class F>
  auto with(F work) {
    return thread_.run_on_loop([&] { return work(*writer_); });
  }

 private:
  Task<Result<void>> apply(const std::vector<std::string_view>& fields) {
    Pipeline pipeline;
    pipeline.add(fields[0], fields[1], "1");
    FRESHET_CO_TRY(reply, co_await run_one(*replay_connection_, pipeline));
    co_return Result<void>();
  }

  LoopThread thread_;
  std::unique_ptr<RedisConnection> replay_connection_;
  std::unique_ptr<BackgroundWriter> writer_;
};

void post_numbers(BackgroundWriter& writer, int count, const BackgroundWriter::OnReplies& on_replies = {}) {
  for (int i = 0; i < count; ++i) {
    Pipeline pipeline;
    pipeline.add("SET", std::to_string(i), "1");
    writer.post(std::move(pipeline), {set_event(std::to_string(i))}, on_replies);
  }
}

template <class Predicate>
bool eventually(Predicate predicate) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (std::chrono::steady_clock::now() < deadline) {
    if (predicate()) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

}  // namespace

TEST_CASE("Posted commands reach Redis asynchronously", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path());
  for (int i = 0; i < 2000; ++i) CHECK(writer.post(std::to_string(i)));
  CHECK(eventually([&] { return store.keys().size() == 2000; }));
}

TEST_CASE("Replay waits while pause_replay returns true, but posted commands are sent", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  std::atomic<bool> full{false};
  Writer writer(directory.path(), {.spool_directory = {}, .scan_interval = 10ms, .pause_replay = [&full] {
                                     return full.load();
                                   }});
  CHECK(writer.post("first"));  // posted before the connection is ready: goes through the spool
  CHECK(eventually([&] { return store.count_of("first") == 1; }));
  full = true;
  REQUIRE(writer.spool(set_event("spooled")));
  CHECK(writer.post("posted"));
  CHECK(eventually([&] { return store.count_of("posted") == 1; }));
  CHECK(store.count_of("spooled") == 0);
  full = false;
  CHECK(eventually([&] { return store.count_of("spooled") == 1; }));
}

TEST_CASE("Commands wait in the spool while Redis is down and are sent when it is back", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  store.set_down(true);
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path());
  for (int i = 0; i < 1200; ++i) REQUIRE(writer.post(std::to_string(i)));
  CHECK(writer.with([](auto& w) { return w.counters().spooled; }) == 1200);
  CHECK(writer.with([](auto& w) { return w.spool_bytes(); }) > 0);
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.oldest_age(); }) > 20ms; }));
  store.set_down(false);
  REQUIRE(eventually([&] { return distinct(store.keys()).size() == 1200; }));
  CHECK(store.keys().front() == "0");
  CHECK(store.keys().back() == "1199");
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.spool_bytes(); }) == 0; }));
  CHECK(writer.with([](auto& w) { return w.oldest_age(); }) == 0ms);
}

TEST_CASE("A command that Redis does not answer counts toward the age of the queue", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  std::atomic<bool> silent = false;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) {
    while (silent && c[0] == "SET") std::this_thread::sleep_for(1ms);
    return store.answer(c);
  });
  Writer writer(directory.path());
  REQUIRE(writer.post("answered"));
  REQUIRE(eventually([&] { return store.keys().size() == 1; }));
  REQUIRE(eventually([&] { return writer.with([](auto& w) { return w.oldest_age(); }) == 0ms; }));
  silent = true;
  REQUIRE(writer.post("on its way"));
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.oldest_age(); }) > 20ms; }));
  silent = false;
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.oldest_age(); }) == 0ms; }));
}

TEST_CASE("The spool of a dead process is replayed by another process and deleted", "[background]") {
  TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "spool");
  const auto orphan = directory.path() / "spool" / "4194304.spool";
  {
    auto spool = Spool::open(orphan, 1 << 20);
    for (int i = 0; i < 700; ++i) {
      REQUIRE((*spool)->append(set_event("left-" + std::to_string(i)).bytes()));
    }
  }
  FakeStore store;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path());
  CHECK(eventually([&] { return distinct(store.keys()).size() == 700; }));
  CHECK(eventually([&] { return !std::filesystem::exists(orphan); }));
}

TEST_CASE("Torn and malformed events are dropped and counted, and replay continues", "[background]") {
  TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "spool");
  const auto path = directory.path() / "spool" / "4194304.spool";
  {
    auto spool = Spool::open(path, 1 << 20);
    REQUIRE((*spool)->append(set_event("torn").bytes()));
    REQUIRE((*spool)->append("no event"));
    REQUIRE((*spool)->append(set_event("whole").bytes()));
  }
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 24 + 5);  // inside the first payload
    file.put('X');
  }
  FakeStore store;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path());
  CHECK(eventually([&] { return store.keys() == std::vector<std::string>{"whole"}; }));
  CHECK(eventually([&] { return !std::filesystem::exists(path); }));
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == 2);
  CHECK(writer.with([](auto& w) { return w.counters().replayed; }) == 1);
}

TEST_CASE("An event that is too old or whose reader was erased is dropped", "[background]") {
  TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "spool");
  const bool too_old = GENERATE(false, true);
  {
    auto spool = Spool::open(directory.path() / "spool" / "4194304.spool", 1 << 20);
    for (const char* const each : {"gone", "stays"}) REQUIRE((*spool)->append(set_event(each).bytes()));
    CHECK(eventually([&] { return (*spool)->age() > 20ms; }));
  }
  FakeStore store;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  BackgroundOptions options{.spool_directory = {}, .scan_interval = 10ms};
  options.max_age = too_old ? 20ms : milliseconds(3'600'000);
  options.is_erased = [](const std::vector<std::string_view>& fields,
                         milliseconds age) -> Task<Result<bool>> {
    co_return fields[1] == "gone" && age > 20ms;
  };
  Writer writer(directory.path(), options);
  const std::uint64_t dropped = too_old ? 2 : 1;
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.counters().dropped; }) == dropped; }));
  CHECK(eventually([&] { return store.keys().size() == 2 - dropped; }));
  CHECK(writer.with([](auto& w) { return w.counters().replayed; }) == 2 - dropped);
}

TEST_CASE("Commands posted without an event are lost while Redis is down", "[background]") {
  TemporaryDirectory directory;
  Writer writer(directory.path());
  CHECK_FALSE(
      writer.with([](BackgroundWriter& w) { return w.post(std::move(Pipeline().add("SET", "x", "1"))); }));
  CHECK(writer.with([](auto& w) { return w.counters().spooled; }) == 0);
}

TEST_CASE("A lost connection is reported once for each pipeline without replies", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  std::atomic<bool> closes = true;
  std::atomic<int> answered = 0, lost = 0;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) -> std::optional<std::string> {
    if (closes && c[0] == "SET") return std::nullopt;
    return store.answer(c);
  });
  Writer writer(directory.path());
  const auto post = [&](BackgroundWriter& w) {
    return w.post(std::move(Pipeline().add("SET", "x", "1")), {},
                  [&](std::span<const Reply> replies) { ++(replies.empty() ? lost : answered); });
  };
  REQUIRE(eventually([&] { return writer.with(post); }));
  CHECK(eventually([&] { return lost == 1; }));
  closes = false;
  REQUIRE(eventually([&] { return writer.with(post); }));
  CHECK(eventually([&] { return answered == 1; }));
  CHECK(lost == 1);
}

TEST_CASE("A writer destroyed in the middle of a replay leaves the remaining events", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  store.refuse("150");
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  {
    Writer first(directory.path());
    for (int i = 0; i < 300; ++i) REQUIRE(first.spool(set_event(std::to_string(i))));
    CHECK(eventually([&] { return store.count_of("150") > 0; }));
  }
  store.refuse("");
  Writer next(directory.path());
  CHECK(eventually([&] { return store.count_of("299") > 0; }));
  CHECK(eventually([&] { return next.with([](auto& w) { return w.spool_bytes(); }) == 0; }));
  for (const char* each : {"0", "149", "150", "151"}) CHECK(store.count_of(each) > 0);
}

namespace {

void spool_keys(Writer& writer, int count) {
  for (int i = 0; i < count; ++i) {
    REQUIRE(writer.spool(set_event(std::to_string(i))));
  }
}

}  // namespace

TEST_CASE("Only the event that keeps being refused is retried, also by the next process", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  store.refuse("300");
  const auto others_once = [&] {
    const auto keys = store.keys();
    std::map<std::string, int> counts;
    for (const std::string& each : keys) ++counts[each];
    counts.erase("300");
    return counts.size() == 699 && std::ranges::all_of(counts, [](const auto& c) { return c.second == 1; });
  };
  std::unique_ptr<FakeRedis> server;
  {
    Writer first(directory.path());
    spool_keys(first, 700);
    server = std::make_unique<FakeRedis>((directory.path() / "r").string(),
                                         [&](const auto& c, int) { return store.answer(c); });
    CHECK(eventually([&] { return store.count_of("699") > 0 && store.count_of("300") >= 20; }));
    CHECK(eventually([&] { return first.with([](auto& w) { return w.counters().replayed; }) == 699; }));
    CHECK(others_once());
    CHECK(first.with([](auto& w) { return w.counters().dropped; }) == 0);
  }
  const auto refused = store.count_of("300");
  Writer next(directory.path());
  CHECK(eventually([&] { return store.count_of("300") > refused; }));
  store.refuse("");
  CHECK(eventually([&] { return next.with([](auto& w) { return w.counters().replayed; }) == 1; }));
  CHECK(eventually([&] { return !Spool::any_pending(directory.path() / "spool"); }));
  CHECK(others_once());
}

TEST_CASE("Events behind a refused one are replayed after lost connections as well", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  store.refuse("0");
  Writer writer(directory.path());
  spool_keys(writer, 300);
  std::atomic<int> lost = 0;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) -> std::optional<std::string> {
    if (c[0] == "SET" && lost < 10) {
      ++lost;
      return std::nullopt;
    }
    return store.answer(c);
  });
  CHECK(eventually([&] { return distinct(store.keys()).size() == 300; }));
}

TEST_CASE("A refused event does not delay the spool of a dead process", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  store.refuse("refused");
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path());
  REQUIRE(writer.spool(set_event("refused")));
  REQUIRE(eventually([&] { return store.count_of("refused") > 0; }));
  // Written elsewhere and moved, since a scan deletes an empty spool.
  const auto orphan = directory.path() / "spool" / "4194304.spool";
  {
    auto spool = Spool::open(directory.path() / "orphan", 1 << 20);
    for (int i = 0; i < 300; ++i) REQUIRE((*spool)->append(set_event("left").bytes()));
  }
  std::filesystem::rename(directory.path() / "orphan", orphan);
  CHECK(eventually([&] { return store.count_of("left") == 300; }));
  CHECK(eventually([&] { return !std::filesystem::exists(orphan); }));
}

TEST_CASE("Torn and rejected events around a refused one are counted once", "[background]") {
  TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "spool");
  const auto path = directory.path() / "spool" / "4194304.spool";
  {
    auto spool = Spool::open(path, 1 << 20);
    REQUIRE((*spool)->append(set_event("refused").bytes()));
    REQUIRE((*spool)->append(SpoolRecord("BAD").add("x").bytes()));
    REQUIRE((*spool)->append(set_event("torn").bytes()));
    REQUIRE((*spool)->append(set_event("accepted").bytes()));
    const auto bad = (*spool)->at((*spool)->at((*spool)->begin())->next);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(bad->next) + 24 + 5);  // inside the third payload
    file.put('X');
  }
  FakeStore store;
  store.refuse("refused");
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path());
  CHECK(eventually([&] { return store.count_of("refused") >= 5; }));
  CHECK(store.count_of("accepted") == 1);
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == 2);
  store.refuse("");
  CHECK(eventually([&] { return !std::filesystem::exists(path); }));
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == 2);
  CHECK(writer.with([](auto& w) { return w.counters().replayed; }) == 2);
}

TEST_CASE("Replay to a Redis that never completes a batch continues with smaller batches", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  Writer writer(directory.path());
  spool_keys(writer, 700);
  std::map<int, int> sets;  // SETs per connection
  FakeRedis server((directory.path() / "r").string(),
                   [&](const auto& command, int connection) -> std::optional<std::string> {
                     if (command[0] == "SET" && ++sets[connection] > 60) return std::nullopt;
                     return store.answer(command);
                   });
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.spool_bytes(); }) == 0; }));
  CHECK(distinct(store.keys()).size() == 700);
}

TEST_CASE("A full queue overflows to the spool, and a full spool is reported", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  store.set_down(true);
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path(), {.spool_directory = {}, .spool_bytes = 2000, .scan_interval = 10ms});
  int accepted = 0;
  while (writer.post("key-" + std::to_string(accepted))) REQUIRE(++accepted < 1000);
  CHECK(accepted > 10);
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == 1);
  const auto spooled = writer.with([&](auto& w) { return w.spool(set_event("one more")); });
  REQUIRE_FALSE(spooled);
  CHECK(error_of(spooled).reason == "spool_full");
}

TEST_CASE("A spool that cannot be written is logged once, and the number of lost events once it recovers",
          "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  store.set_down(true);
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  const LogFile log("notice");
  const auto lines = [&] {  // of the spool; connections log as well
    std::istringstream all(LogFile::lines(log.path()));
    std::string found;
    for (std::string line; std::getline(all, line);) {
      if (line.find("event=spool_") != std::string::npos) found += line + "\n";
    }
    return found;
  };
  const auto blocking_file = directory.path() / "spool";
  std::ofstream(blocking_file) << "not a directory";
  Writer writer(directory.path());
  for (int i = 0; i < 300; ++i) CHECK_FALSE(writer.post("key"));
  const std::string failing = lines();
  CHECK(std::ranges::count(failing, '\n') == 1);
  CHECK(failing.find("level=error event=spool_write_failing") == 0);
  const std::string recovered = failing + "level=notice event=spool_write_recovered events=300\n";
  SECTION("when it can be written again") {
    std::filesystem::remove(blocking_file);
    CHECK(eventually([&] { return writer.post("key") && lines() == recovered; }));
  }
  SECTION("when Redis is back") {
    store.set_down(false);
    CHECK(eventually([&] { return lines() == recovered; }));
  }
}

TEST_CASE("An event that Redis refuses for good is dropped and counted, and replay continues",
          "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path());
  REQUIRE(writer.spool(SpoolRecord("BAD").add("x")));
  CHECK(writer.post("good"));
  CHECK(eventually([&] { return store.keys() == std::vector<std::string>{"good"}; }));
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.counters().dropped; }) == 1; }));
}

TEST_CASE("A worker that stops sends its queue first", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path());
  REQUIRE(writer.post("first"));
  REQUIRE(eventually([&] { return store.keys().size() == 1; }));
  std::promise<void> drained;
  writer.with([&](BackgroundWriter& w) {
    post_numbers(w, 1000);
    w.drain(std::chrono::steady_clock::now() + 10s, [&] { drained.set_value(); });
    return 0;
  });
  REQUIRE(drained.get_future().wait_for(10s) == std::future_status::ready);
  CHECK(store.keys().size() == 1001);
}

TEST_CASE("A lost connection spools the queue, and a worker that stops then does not wait", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path());
  REQUIRE(writer.post("first"));
  // It goes through the spool if the connection was not ready yet.
  const auto applied = [](auto& w) { return w.counters().accepted + w.counters().replayed; };
  REQUIRE(eventually([&] { return writer.with(applied) == 1; }));
  const auto before = writer.with([](auto& w) { return w.counters().spooled; });
  store.set_down(true);
  std::atomic<int> unanswered = 0;
  writer.with([&](BackgroundWriter& w) {
    post_numbers(w, 600, [&](std::span<const Reply> replies) { unanswered += replies.empty() ? 1 : 0; });
    return 0;
  });
  // The outcome of the first batch is unknown. The rest must not be sent later, because its readers
  // may be erased until then.
  REQUIRE(
      eventually([&] { return writer.with([](auto& w) { return w.counters().spooled; }) == before + 600; }));
  CHECK(writer.with([](auto& w) { return w.queued(); }) == 0);
  CHECK(unanswered == 600);
  std::promise<void> drained;
  writer.with([&](BackgroundWriter& w) {
    w.drain(std::chrono::steady_clock::now() + 1h, [&] { drained.set_value(); });
    return 0;
  });
  REQUIRE(drained.get_future().wait_for(10s) == std::future_status::ready);
}

TEST_CASE("Writes that were queued when the connection was lost are replayed, never sent", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return store.answer(c); });
  Writer writer(directory.path());
  REQUIRE(writer.post("first"));
  const auto applied = [](auto& w) { return w.counters().accepted + w.counters().replayed; };
  REQUIRE(eventually([&] { return writer.with(applied) == 1; }));
  const auto before = writer.with([](auto& w) { return w.counters(); });
  store.set_down(true);
  writer.with([&](BackgroundWriter& w) {
    post_numbers(w, 600);
    return 0;
  });
  REQUIRE(eventually([&] { return writer.with([](auto& w) { return w.queued(); }) == 0; }));
  store.set_down(false);
  REQUIRE(eventually([&] { return store.keys().size() == 601; }));
  REQUIRE(eventually([&] { return writer.with(applied) == 601; }));
  CHECK(writer.with([](auto& w) { return w.counters().accepted; }) == before.accepted);
}

TEST_CASE("A worker that stops completes the replay in flight and starts no other", "[background]") {
  TemporaryDirectory directory;
  FakeStore store;
  std::atomic<bool> waits = true, is_waiting = false;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) {
    while (waits && c[0] == "SET") {
      is_waiting = true;
      std::this_thread::sleep_for(1ms);
    }
    return store.answer(c);
  });
  Writer writer(directory.path());
  for (int i = 0; i < 300; ++i) REQUIRE(writer.spool(set_event(std::to_string(i))));
  REQUIRE(eventually([&] { return is_waiting.load(); }));
  std::promise<void> drained;
  writer.with([&](BackgroundWriter& w) {
    w.drain(std::chrono::steady_clock::now() + 1h, [&] { drained.set_value(); });
    return 0;
  });
  waits = false;
  REQUIRE(drained.get_future().wait_for(60s) == std::future_status::ready);
  CHECK(writer.with([](auto& w) { return w.counters().replayed; }) <= 100);  // a batch
  CHECK(writer.with([](auto& w) { return w.spool_bytes(); }) > 0);
}
