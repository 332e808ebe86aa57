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

class Writer {
 public:
  Writer(const std::filesystem::path& directory, std::span<const Script> scripts = kScripts,
         BackgroundOptions options = {.spool_directory = {}, .scan_interval = 10ms}) {
    options.spool_directory = directory / "spool";
    thread_.on_loop([&] {
      LinkOptions link;
      link.endpoint.unix_path = (directory / "r").string();
      link.timeout = 5s;  // a slow build must not make a batch go twice
      link.breaker = {.failures = 3, .open = 5ms, .first = 5ms, .most = 20ms};
      writer_ = std::make_unique<BackgroundWriter>(thread_.loop(), link, scripts, options);
      writer_->start();
    });
  }
  ~Writer() {
    thread_.on_loop([&] { writer_.reset(); });
    thread_.stop();
  }
  bool post(const std::string& key) {
    return thread_.on_loop([&] {
      Pipeline pipeline;
      pipeline.add("SET", key, "1");
      return writer_->post(std::move(pipeline));
    });
  }
  template <class F>
  auto with(F work) {
    return thread_.on_loop([&] { return work(*writer_); });
  }

 private:
  LoopThread thread_;
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
  Writer writer(
      directory.path(), kScripts,
      {.spool_directory = {}, .scan_interval = 10ms, .spools_wait = [&full] { return full.load(); }});
  CHECK(writer.post("first"));  // until Redis answers, what is posted is spooled too
  CHECK(eventually([&] { return memory.times("first") == 1; }));
  full = true;
  REQUIRE(writer.with([](BackgroundWriter& each) {
    Pipeline pipeline;
    return each.spool(std::move(pipeline.add("SET", "spooled", "1")));
  }));
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
  REQUIRE(eventually([&] { return memory.keys().size() == 1200; }));
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

TEST_CASE("The spool that a dead process left is replayed by another, once, and removed", "[background]") {
  TemporaryDirectory directory;
  std::filesystem::create_directories(directory.path() / "spool");
  const auto left = directory.path() / "spool" / "4194304.spool";
  {
    auto spool = Spool::open(left, 1 << 20);
    for (int i = 0; i < 700; ++i) {
      Pipeline pipeline;
      pipeline.add("SET", "left-" + std::to_string(i), "1");
      REQUIRE((*spool)->append(Spool::Kind::kCommand, pipeline.at(0)));
    }
  }
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer writer(directory.path());
  CHECK(eventually([&] { return memory.keys().size() == 700; }));
  CHECK(eventually([&] { return !std::filesystem::exists(left); }));
  CHECK(memory.keys().size() == 700);
}

TEST_CASE("A spool carries the scripts its commands name, for a program that has others", "[background]") {
  TemporaryDirectory directory;
  {  // no server yet
    Writer old(directory.path());
    Pipeline pipeline;
    pipeline.script(kScripts[0], 0, 0);
    REQUIRE(old.with([&](auto& w) { return w.spool(std::move(pipeline)).has_value(); }));
  }
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer next(directory.path(), {});
  CHECK(eventually([&] { return memory.keys() == std::vector<std::string>{std::string(kScripts[0].sha1)}; }));
  CHECK(memory.sources() == std::vector<std::string>{"return 1"});
}

TEST_CASE("A spool that was emptied carries its scripts anew", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  const auto spool_one = [](Writer& writer) {
    Pipeline pipeline;
    pipeline.script(kScripts[0], 0, 0);
    REQUIRE(writer.with([&](auto& w) { return w.spool(std::move(pipeline)).has_value(); }));
  };
  {
    Writer old(directory.path());
    spool_one(old);
    REQUIRE(eventually([&] { return memory.keys().size() == 1; }));
    REQUIRE(eventually([&] { return old.with([](auto& w) { return w.spool_bytes(); }) == 0; }));
    memory.away(true);
    spool_one(old);
  }
  const std::size_t before = memory.sources().size();
  memory.away(false);
  const Writer next(directory.path(), {});
  // What the dead one had sent may be answered late, beside it.
  CHECK(eventually([&] { return memory.keys().size() >= 2 && memory.sources().size() > before; }));
}

namespace {

// Scripts of a version before: no row of kScripts.
constexpr Script kOld{"old", "return redis.call('SADD', KEYS[1], ARGV[1])", ""};

// The spool that a dead process of that version left: `commands` EVALSHA, its script before them.
std::filesystem::path old_spool(const std::filesystem::path& directory, const Script& script, int commands,
                                bool with_script = true) {
  std::filesystem::create_directories(directory / "spool");
  const auto path = directory / "spool" / "4194304.spool";
  auto spool = Spool::open(path, 1 << 20);
  REQUIRE(spool);
  if (with_script) REQUIRE((*spool)->append(Spool::Kind::kScript, script.source));
  for (int i = 0; i < commands; ++i) {
    Pipeline one;
    one.script(script, 1, 1).arg("taken").arg(i);
    REQUIRE((*spool)->append(Spool::Kind::kCommand, one.at(0)));
  }
  return path;
}

// A real Redis where background_test's Writer looks for it.
struct RealRedis {
  RedisServer server;
  TemporaryDirectory directory;
  SyncRedis redis{server.endpoint(), milliseconds(5000), {}};
  RealRedis() { std::filesystem::create_symlink(server.socket(), directory.path() / "r"); }
  Reply ask(auto... words) {
    auto replies = redis.call(Pipeline().add(words...));
    REQUIRE(replies);
    return std::move(replies->front());
  }
  std::int64_t taken() { return ask("SCARD", "taken").integer().value_or(-1); }
  Script old() {  // with the SHA-1 that Redis gives it
    sha = ask("SCRIPT", "LOAD", kOld.source).string().value();
    ask("SCRIPT", "FLUSH");
    return {kOld.name, kOld.source, sha};
  }
  std::string sha;
};

}  // namespace

TEST_CASE("A Redis that forgot all scripts is told those of an earlier version's spool", "[background]") {
  RealRedis real;
  const auto path = old_spool(real.directory.path(), real.old(), 1800);
  // Whoever is at it dies after the first batch, and Redis forgets again.
  {
    auto spool = Spool::open(path, 1 << 20);
    std::uint64_t next = (*spool)->begin();
    for (int i = 0; i < 700; ++i) next = (*spool)->at(next)->next;
    REQUIRE((*spool)->append(Spool::Kind::kScript, kOld.source));  // as the writer does before it pops
    (*spool)->pop_to(next);
  }
  Writer writer(real.directory.path());
  CHECK(eventually([&] { return real.taken() == 1800 - 699; }));
  CHECK(eventually([&] { return !std::filesystem::exists(path); }));
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == 0);
  CHECK(writer.with([](auto& w) { return w.counters().replayed; }) == 1800 - 699);
}

TEST_CASE("A spool that a process of the same number left is gone on with, and its scripts are known",
          "[background]") {
  RealRedis real;
  const auto path = old_spool(real.directory.path(), real.old(), 3);
  const auto own = path.parent_path() / (std::to_string(getpid()) + ".spool");
  std::filesystem::rename(path, own);
  std::filesystem::rename(real.directory.path() / "r", real.directory.path() / "later");
  Writer writer(real.directory.path(), kScripts, {.spool_directory = {}, .scan_interval = 1s});
  Pipeline one;
  one.add("SADD", "taken", "new");
  REQUIRE(writer.with([&](auto& w) { return w.spool(std::move(one)).has_value(); }));
  std::filesystem::rename(real.directory.path() / "later", real.directory.path() / "r");
  CHECK(eventually([&] { return real.taken() == 4; }));
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == 0);
}

TEST_CASE("A writer that ends in the middle of a replay leaves the scripts that the rest needs",
          "[background]") {
  RealRedis real;
  const Script old = real.old();
  const auto path = old_spool(real.directory.path(), old, 1800);
  std::atomic<bool> away = false;
  std::atomic<int> done = 0;
  {
    // One that takes a batch and then nothing more.
    const std::string socket = (real.directory.path() / "first").string();
    FakeRedis first(socket, [&](const auto& command, int) -> std::optional<std::string> {
      if (command[0] == "PING") return "+PONG\r\n";
      if (command[0] == "SCRIPT")
        return "$40\r\n" + std::string(command[2] == kOld.source ? old.sha1 : kScripts[0].sha1) + "\r\n";
      if (away || ++done > 500) return std::nullopt;
      return ":1\r\n";
    });
    std::filesystem::remove(real.directory.path() / "r");
    std::filesystem::create_symlink(socket, real.directory.path() / "r");
    const Writer writer(real.directory.path());
    REQUIRE(eventually([&] { return done > 500; }));
    away = true;
  }
  std::filesystem::remove(real.directory.path() / "r");
  std::filesystem::create_symlink(real.server.socket(), real.directory.path() / "r");
  real.ask("SCRIPT", "FLUSH");
  const Writer writer(real.directory.path());
  CHECK(eventually([&] { return real.taken() == 1300; }));
  CHECK(eventually([&] { return !std::filesystem::exists(path); }));
}

TEST_CASE("A command whose script is nowhere is dropped and counted, and the rest goes on", "[background]") {
  RealRedis real;
  const bool torn = GENERATE(false, true);
  const auto path = old_spool(real.directory.path(), real.old(), 3, torn);
  {
    auto spool = Spool::open(path, 1 << 20);
    Pipeline plain;
    plain.add("SADD", "taken", "plain");
    REQUIRE((*spool)->append(Spool::Kind::kCommand, plain.at(0)));
  }
  if (torn) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 16 + 5);  // inside the script
    file.put('X');
  }
  Writer writer(real.directory.path());
  CHECK(eventually([&] { return real.taken() == 1; }));
  CHECK(eventually([&] { return !std::filesystem::exists(path); }));
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == (torn ? 4 : 3));
  CHECK(writer.with([](auto& w) { return w.counters().replayed; }) == 1);
}

namespace {

void spool_keys(Writer& writer, int count) {
  for (int i = 0; i < count; ++i) {
    Pipeline one;
    one.add("SET", std::to_string(i), "1");
    REQUIRE(writer.with([&](auto& w) { return w.spool(std::move(one)).has_value(); }));
  }
}

std::set<std::string> different(const std::vector<std::string>& keys) { return {keys.begin(), keys.end()}; }

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
  Writer writer(directory.path(), kScripts,
                {.spool_directory = {}, .spool_bytes = 2000, .scan_interval = 10ms});
  int kept = 0;
  while (writer.post("key-" + std::to_string(kept))) REQUIRE(++kept < 1000);
  CHECK(kept > 10);
  CHECK(writer.with([](auto& w) { return w.counters().dropped; }) == 1);
  Pipeline pipeline;
  pipeline.add("SET", "one more", "1");
  const auto spooled = writer.with([&](auto& w) { return w.spool(std::move(pipeline)); });
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
  CHECK(begun.find("level=error event=spool_refuses") == 0);
  const std::string over = begun + "level=notice event=spool_refused commands=300\n";
  SECTION("it can be written again") {
    std::filesystem::remove(in_the_way);
    CHECK(eventually([&] { return writer.post("key") && lines() == over; }));
  }
  SECTION("Redis is back") {
    memory.away(false);
    CHECK(eventually([&] { return lines() == over; }));
  }
}

TEST_CASE("A command that Redis refuses for good is dropped and counted, the others go on", "[background]") {
  TemporaryDirectory directory;
  Memory memory;
  FakeRedis server((directory.path() / "r").string(), [&](const auto& c, int) { return memory.answer(c); });
  Writer writer(directory.path());
  Pipeline bad;
  bad.add("BAD", "x");
  writer.with([&](auto& w) { return w.spool(std::move(bad)).has_value(); });
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
      w.post(std::move(pipeline));
    }
    w.drain(std::chrono::steady_clock::now() + 10s, [&] { drained.set_value(); });
    return 0;
  });
  REQUIRE(drained.get_future().wait_for(10s) == std::future_status::ready);
  CHECK(memory.keys().size() == 1001);
}
