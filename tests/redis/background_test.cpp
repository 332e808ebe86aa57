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

// A server that remembers the SET keys it took and can be told to refuse everything.
class Memory {
 public:
  std::optional<std::string> answer(const FakeRedis::Command& command) {
    const std::lock_guard lock(mutex_);
    if (away_) return std::nullopt;
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
  void away(bool value) {
    const std::lock_guard lock(mutex_);
    away_ = value;
  }
  void refuse(const std::string& key) {  // "": none
    const std::lock_guard lock(mutex_);
    refused_ = key;
  }
  std::ptrdiff_t times(const std::string& key) {  // it came
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
  bool away_ = false;
  std::string refused_;
  std::vector<std::string> keys_, sources_;
};

std::set<std::string> different(const std::vector<std::string>& keys) { return {keys.begin(), keys.end()}; }

SpoolRecord set_event(const std::string& key) { return SpoolRecord("SET").add(key); }

// Its spool's events are commands for the same server, over another connection.
class Writer {
 public:
  Writer(const std::filesystem::path& directory,
         BackgroundOptions options = {.spool_directory = {}, .scan_interval = 10ms}) {
    options.spool_directory = directory / "spool";
    options.apply = [this](const auto& fields) { return apply(fields); };
    thread_.run_on_loop([&] {
      ConnectionOptions link;
      link.endpoint.unix_path = (directory / "r").string();
      link.timeout = 5s;  // a slow build must not make a batch go twice
      link.breaker = {.failure_threshold = 3, .open_delay = 5ms, .closed_delay = 5ms, .max_delay = 20ms};
      others_ = std::make_unique<RedisConnection>(thread_.loop(), link, kScripts);
      others_->connect();
      writer_ = std::make_unique<BackgroundWriter>(
          thread_.loop(), std::make_unique<RedisConnection>(thread_.loop(), link, kScripts), options);
      writer_->start();
    });
  }
  ~Writer() {
    thread_.run_on_loop([&] {
      others_->close();
      writer_.reset();
      others_.reset();
    });
    thread_.stop();
  }
  bool post(const std::string& key) {
    return thread_.run_on_loop([&] {
      Pipeline pipeline;
      pipeline.add("SET", key, "1");
      return writer_->post(std::move(pipeline), set_event(key));
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
    FRESHET_CO_TRY(reply, co_await run_one(*others_, pipeline));
    co_return Result<void>();
  }

  LoopThread thread_;
  std::unique_ptr<RedisConnection> others_;
  std::unique_ptr<BackgroundWriter> writer_;
};

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

TEST_CASE("Posted commands reach Redis without anybody waiting for them", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer writer(directory.path());
  for (int i = 0; i < 2000; ++i) CHECK(writer.post(std::to_string(i)));
  CHECK(eventually([&] { return memory.keys().size() == 2000; }));
}

TEST_CASE("A spool waits while it is told to although Redis answers, and what is posted does not",
          "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  std::atomic<bool> full{false};
  Writer writer(directory.path(), {.spool_directory = {}, .scan_interval = 10ms, .pause_replay = [&full] {
                                     return full.load();
                                   }});
  CHECK(writer.post("first"));  // until Redis answers, what is posted is spooled too
  CHECK(eventually([&] { return memory.times("first") == 1; }));
  full = true;
  REQUIRE(writer.spool(set_event("spooled")));
  CHECK(writer.post("posted"));
  CHECK(eventually([&] { return memory.times("posted") == 1; }));
  CHECK(memory.times("spooled") == 0);
  full = false;
  CHECK(eventually([&] { return memory.times("spooled") == 1; }));
}

TEST_CASE("While Redis is away commands wait in the spool, and come when it is back", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  memory.away(true);
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer writer(directory.path());
  for (int i = 0; i < 1200; ++i) REQUIRE(writer.post(std::to_string(i)));
  CHECK(writer.with([](auto& w) { return w.counters().spooled; }) == 1200);
  CHECK(writer.with([](auto& w) { return w.spool_bytes(); }) > 0);
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.oldest_age(); }) > 20ms; }));
  memory.away(false);
  REQUIRE(eventually([&] { return different(memory.keys()).size() == 1200; }));
  CHECK(memory.keys().front() == "0");
  CHECK(memory.keys().back() == "1199");
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.spool_bytes(); }) == 0; }));
  CHECK(writer.with([](auto& w) { return w.oldest_age(); }) == 0ms);
}

TEST_CASE("A command that Redis does not answer ages in the queue", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  std::atomic<bool> silent = false;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) {
    while (silent && c[0] == "SET") std::this_thread::sleep_for(1ms);
    return memory.answer(c);
  });
  Writer writer(directory.path());
  REQUIRE(writer.post("answered"));
  REQUIRE(eventually([&] { return memory.keys().size() == 1; }));
  REQUIRE(eventually([&] { return writer.with([](auto& w) { return w.oldest_age(); }) == 0ms; }));
  silent = true;
  REQUIRE(writer.post("on its way"));
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.oldest_age(); }) > 20ms; }));
  silent = false;
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.oldest_age(); }) == 0ms; }));
}

TEST_CASE("The spool that a dead process left is replayed by another, and removed", "[background]") {
  TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "spool");
  const auto left = directory.path() / "spool" / "4194304.spool";
  {
    auto spool = Spool::open(left, 1 << 20);
    for (int i = 0; i < 700; ++i) {
      REQUIRE((*spool)->append(set_event("left-" + std::to_string(i)).bytes()));
    }
  }
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer writer(directory.path());
  CHECK(eventually([&] { return different(memory.keys()).size() == 700; }));
  CHECK(eventually([&] { return !std::filesystem::exists(left); }));
}

TEST_CASE("A torn event and one that is none are dropped and counted, and the rest goes on", "[background]") {
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
    file.seekp(4096 + 24 + 5);  // inside the first
    file.put('X');
  }
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer writer(directory.path());
  CHECK(eventually([&] { return memory.keys() == std::vector<std::string>{"whole"}; }));
  CHECK(eventually([&] { return !std::filesystem::exists(path); }));
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == 2);
  CHECK(writer.with([](auto& w) { return w.counters().replayed; }) == 1);
}

TEST_CASE("An event that waited too long, or that is void by now, is dropped", "[background]") {
  TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "spool");
  const bool old = GENERATE(false, true);
  {
    auto spool = Spool::open(directory.path() / "spool" / "4194304.spool", 1 << 20);
    for (const char* const each : {"gone", "stays"}) REQUIRE((*spool)->append(set_event(each).bytes()));
    CHECK(eventually([&] { return (*spool)->age() > 20ms; }));
  }
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  BackgroundOptions options{.spool_directory = {}, .scan_interval = 10ms};
  options.max_age = old ? 20ms : milliseconds(3'600'000);
  options.is_erased = [](const std::vector<std::string_view>& fields, milliseconds age) -> Task<Result<bool>> {
    co_return fields[1] == "gone" && age > 20ms;
  };
  Writer writer(directory.path(), options);
  const std::uint64_t dropped = old ? 2 : 1;
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.counters().dropped; }) == dropped; }));
  CHECK(eventually([&] { return memory.keys().size() == 2 - dropped; }));
  CHECK(writer.with([](auto& w) { return w.counters().replayed; }) == 2 - dropped);
}

TEST_CASE("What is posted without an event is lost while Redis is away", "[background]") {
  TemporaryDirectory directory;
  Writer writer(directory.path());
  CHECK_FALSE(
      writer.with([](BackgroundWriter& w) { return w.post(std::move(Pipeline().add("SET", "x", "1"))); }));
  CHECK(writer.with([](auto& w) { return w.counters().spooled; }) == 0);
}

TEST_CASE("A writer that ends in the middle of a replay leaves what was not applied", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  memory.refuse("150");
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  {
    Writer first(directory.path());
    for (int i = 0; i < 300; ++i) REQUIRE(first.spool(set_event(std::to_string(i))));
    CHECK(eventually([&] { return memory.times("150") > 0; }));
  }
  memory.refuse("");
  Writer next(directory.path());
  CHECK(eventually([&] { return memory.times("299") > 0; }));
  CHECK(eventually([&] { return next.with([](auto& w) { return w.spool_bytes(); }) == 0; }));
  for (const char* each : {"0", "149", "150", "151"}) CHECK(memory.times(each) > 0);
}

namespace {

void spool_keys(Writer& writer, int count) {
  for (int i = 0; i < count; ++i) {
    REQUIRE(writer.spool(set_event(std::to_string(i))));
  }
}

}  // namespace

TEST_CASE("What is refused for long is tried alone: its neighbours are not sent again with it",
          "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  memory.refuse("300");
  Writer writer(directory.path());
  spool_keys(writer, 700);
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  CHECK(eventually([&] { return memory.times("300") >= 100; }));
  for (const char* each : {"0", "299", "301", "699"}) CHECK(memory.times(each) < 30);
  CHECK(memory.times("299") > 0);
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == 0);
  memory.refuse("");
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.spool_bytes(); }) == 0; }));
  CHECK(different(memory.keys()).size() == 700);
  CHECK(writer.with([](auto& w) { return w.counters().replayed; }) == 700);
}

TEST_CASE("A Redis that never answers a whole batch is replayed to in smaller ones", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  Writer writer(directory.path());
  spool_keys(writer, 700);
  std::map<int, int> taken;  // of each connection
  FakeRedis server((directory.path() / "r").string(),
                   [&](const auto& command, int connection) -> std::optional<std::string> {
                     if (command[0] == "SET" && ++taken[connection] > 60) return std::nullopt;
                     return memory.answer(command);
                   });
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.spool_bytes(); }) == 0; }));
  CHECK(different(memory.keys()).size() == 700);
}

TEST_CASE("A full queue goes to the spool, a full spool is told", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  memory.away(true);
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer writer(directory.path(), {.spool_directory = {}, .spool_bytes = 2000, .scan_interval = 10ms});
  int kept = 0;
  while (writer.post("key-" + std::to_string(kept))) REQUIRE(++kept < 1000);
  CHECK(kept > 10);
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == 1);
  const auto spooled = writer.with([&](auto& w) { return w.spool(set_event("one more")); });
  REQUIRE_FALSE(spooled);
  CHECK(spooled.error().reason == "spool_full");
}

TEST_CASE("A spool that cannot be written says so once, and what it refused once that is over",
          "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  memory.away(true);
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  const LogFile log("notice");
  const auto lines = [&] {  // of spools; connections have theirs
    std::istringstream all(LogFile::lines(log.path()));
    std::string found;
    for (std::string line; std::getline(all, line);) {
      if (line.find("event=spool_") != std::string::npos) found += line + "\n";
    }
    return found;
  };
  const auto in_the_way = directory.path() / "spool";
  std::ofstream(in_the_way) << "no folder";
  Writer writer(directory.path());
  for (int i = 0; i < 300; ++i) CHECK_FALSE(writer.post("key"));
  const std::string begun = lines();
  CHECK(std::ranges::count(begun, '\n') == 1);
  CHECK(begun.find("level=error event=spool_write_failing") == 0);
  const std::string over = begun + "level=notice event=spool_write_recovered events=300\n";
  SECTION("it can be written again") {
    std::filesystem::remove(in_the_way);
    CHECK(eventually([&] { return writer.post("key") && lines() == over; }));
  }
  SECTION("Redis is back") {
    memory.away(false);
    CHECK(eventually([&] { return lines() == over; }));
  }
}

TEST_CASE("An event that Redis refuses for good is dropped and counted, the others go on", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer writer(directory.path());
  REQUIRE(writer.spool(SpoolRecord("BAD").add("x")));
  CHECK(writer.post("good"));
  CHECK(eventually([&] { return memory.keys() == std::vector<std::string>{"good"}; }));
  CHECK(eventually([&] { return writer.with([](auto& w) { return w.counters().dropped; }) == 1; }));
}

TEST_CASE("A worker that stops sends its queue first; what cannot be sent is spooled", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer writer(directory.path());
  REQUIRE(writer.post("first"));
  REQUIRE(eventually([&] { return memory.keys().size() == 1; }));
  std::promise<void> drained;
  writer.with([&](BackgroundWriter& w) {
    for (int i = 0; i < 1000; ++i) {
      Pipeline pipeline;
      pipeline.add("SET", std::to_string(i), "1");
      w.post(std::move(pipeline), set_event(std::to_string(i)));
    }
    w.drain(std::chrono::steady_clock::now() + 10s, [&] { drained.set_value(); });
    return 0;
  });
  REQUIRE(drained.get_future().wait_for(10s) == std::future_status::ready);
  CHECK(memory.keys().size() == 1001);
}

TEST_CASE("A worker that stops while Redis is away spools its queue and waits for nothing", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer writer(directory.path());
  REQUIRE(writer.post("first"));
  // Through the spool when the connection was not there yet.
  const auto taken = [](auto& w) { return w.counters().accepted + w.counters().replayed; };
  REQUIRE(eventually([&] { return writer.with(taken) == 1; }));
  const auto before = writer.with([](auto& w) { return w.counters().spooled; });
  memory.away(true);
  writer.with([&](BackgroundWriter& w) {
    for (int i = 0; i < 600; ++i) {
      Pipeline pipeline;
      pipeline.add("SET", std::to_string(i), "1");
      w.post(std::move(pipeline), set_event(std::to_string(i)));
    }
    return 0;
  });
  // Of the first batch nothing is known; what stands behind it is still queued.
  REQUIRE(eventually([&] { return writer.with([](auto& w) { return w.counters().spooled; }) > before; }));
  REQUIRE(writer.with([](auto& w) { return w.queued(); }) > 0);
  std::promise<void> drained;
  writer.with([&](BackgroundWriter& w) {
    w.drain(std::chrono::steady_clock::now() + 1h, [&] { drained.set_value(); });
    return 0;
  });
  REQUIRE(drained.get_future().wait_for(10s) == std::future_status::ready);
  CHECK(writer.with([](auto& w) { return w.counters().spooled; }) == before + 600);
}
