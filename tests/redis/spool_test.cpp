#include "core/redis/spool.h"

#include <rapidcheck.h>
#include <sys/wait.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <thread>

#include "core/base/redis_clock.h"
#include "tests/support/error_of.h"
#include "tests/support/file_bytes.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::test;
using redis::Spool;

namespace {

std::vector<std::string> contents(Spool& spool) {
  std::vector<std::string> all;
  std::uint64_t at = spool.begin();
  while (const auto record = spool.at(at)) {
    all.emplace_back(record->payload);
    at = record->next;
  }
  return all;
}

}  // namespace

TEST_CASE("Spooled events are read by the next process in order", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  const pid_t child = fork();
  if (child == 0) {
    auto spool = Spool::open(path, 1 << 20);
    for (int i = 0; i < 1000; ++i) (*spool)->append("record " + std::to_string(i));
    (void)kill(getpid(), SIGKILL);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  auto spool = Spool::open(path, 1 << 20);
  REQUIRE(spool);
  const auto all = contents(**spool);
  REQUIRE(all.size() == 1000);
  CHECK(all.front() == "record 0");
  CHECK(all.back() == "record 999");
}

TEST_CASE("any_pending() reports whether a spool in the folder has events", "[spool]") {
  TemporaryDirectory directory;
  CHECK_FALSE(Spool::any_pending(directory.path() / "none"));
  CHECK_FALSE(Spool::any_pending(directory.path()));
  auto spool = Spool::open(directory.path() / "a.spool", 1 << 20);
  CHECK_FALSE(Spool::any_pending(directory.path()));
  REQUIRE((*spool)->append("event"));
  CHECK(Spool::any_pending(directory.path()));
  (*spool)->pop_to((*spool)->at((*spool)->begin())->next);
  CHECK_FALSE(Spool::any_pending(directory.path()));
}

TEST_CASE("The age of an event is measured by the Redis clock", "[spool]") {
  TemporaryDirectory directory;
  const auto before = redis_clock_offset();
  auto spool = Spool::open(directory.path() / "a.spool", 1 << 20);
  update_redis_clock(std::chrono::hours(24 * 365 * 10), since_boot());
  REQUIRE((*spool)->append("event"));
  update_redis_clock(std::chrono::hours(24 * 365 * 10) + std::chrono::minutes(5), since_boot());
  const auto age = (*spool)->at((*spool)->begin())->age;
  CHECK((age >= std::chrono::minutes(5) && age < std::chrono::minutes(6)));
  CHECK((wall_now() >= UnixSeconds(std::chrono::hours(24 * 365 * 10)) &&
         wall_now() < UnixSeconds(std::chrono::hours(24 * 365 * 10 + 1))));
  REQUIRE_FALSE(before);  // and reset, for the tests after this one
  update_redis_clock(std::chrono::duration_cast<std::chrono::microseconds>(
                         std::chrono::system_clock::now().time_since_epoch()),
                     since_boot());
}

TEST_CASE("A spool belongs to one process at a time", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  auto first = Spool::open(path, 1 << 20);
  REQUIRE(first);
  const auto second = Spool::open(path, 1 << 20);
  REQUIRE_FALSE(second);
  CHECK(error_of(second).reason == "spool_locked");
  first->reset();
  CHECK(Spool::open(path, 1 << 20));
}

TEST_CASE("A spool that is deleted while being opened is not returned", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  std::atomic<bool> stop = false;
  // As workers do with the empty spool of a dead process.
  std::thread others([&] {
    while (!stop) {
      if (auto spool = Spool::open(path, 4096)) (*spool)->unlink();
    }
  });
  int deleted_opens = 0;
  for (int opened = 0; opened < 3000;) {
    auto spool = Spool::open(path, 4096);
    if (!spool) continue;
    ++opened;
    deleted_opens += std::filesystem::exists(path) ? 0 : 1;
  }
  stop = true;
  others.join();
  CHECK(deleted_opens == 0);
}

TEST_CASE("A full spool refuses further events and keeps those it has", "[spool]") {
  TemporaryDirectory directory;
  auto spool = Spool::open(directory.path() / "a.spool", 10000);
  REQUIRE(spool);
  int accepted = 0;
  while ((*spool)->append(std::string(100, 'x'))) ++accepted;
  CHECK(accepted > 50);
  CHECK(accepted <= 100);
  CHECK(contents(**spool).size() == static_cast<std::size_t>(accepted));
}

TEST_CASE("An emptied spool starts over, so it does not fill up through use", "[spool]") {
  TemporaryDirectory directory;
  auto spool = Spool::open(directory.path() / "a.spool", 10000);
  REQUIRE(spool);
  for (int i = 0; i < 1000; ++i) {
    REQUIRE((*spool)->append(std::string(100, 'x')));
    (*spool)->pop_to((*spool)->at((*spool)->begin())->next);
  }
  CHECK((*spool)->empty());
}

TEST_CASE("A torn last entry ends the file, and the entries before it are kept", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  {
    auto spool = Spool::open(path, 1 << 20);
    for (int i = 0; i < 3; ++i) (*spool)->append("0123456789abcdef");
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 2 * 40 + 24 + 5);  // inside the third payload
  file.put('X');
  file.close();
  auto spool = Spool::open(path, 1 << 20);
  REQUIRE(spool);
  CHECK(contents(**spool).size() == 2);
  CHECK((*spool)->is_damaged());
}

TEST_CASE("A torn entry followed by valid ones is reported, and those are kept", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  {
    auto spool = Spool::open(path, 1 << 20);
    for (const char* each : {"first", "second", "third"}) (*spool)->append(each);
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 32 + 24);  // the second payload
  file.put('X');
  file.close();
  auto spool = Spool::open(path, 1 << 20);
  REQUIRE(spool);
  const auto first = (*spool)->at((*spool)->begin());
  const auto torn = (*spool)->at(first->next);
  REQUIRE(torn);
  CHECK(torn->torn);
  CHECK((*spool)->is_damaged());
  const auto third = (*spool)->at(torn->next);
  REQUIRE(third);
  CHECK(third->payload == "third");
}

TEST_CASE("A file that is not a spool is left untouched", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  std::ofstream(path) << std::string(5000, 'z');
  const auto spool = Spool::open(path, 1 << 20);
  REQUIRE_FALSE(spool);
  CHECK(error_of(spool).reason == "spool_format");
  CHECK(std::filesystem::file_size(path) == 5000);
}

TEST_CASE("Any sequence of appends and pops behaves like a queue", "[spool]") {
  REQUIRE(rc::check("queue", [] {
    TemporaryDirectory directory;
    const auto path = directory.path() / "a.spool";
    auto spool = Spool::open(path, 1 << 16);
    RC_ASSERT(spool.has_value());
    std::vector<std::string> model;
    const auto steps = *rc::gen::inRange(1, 60);
    for (int i = 0; i < steps; ++i) {
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
          if (!model.empty()) {
            (*spool)->pop_to((*spool)->at((*spool)->begin())->next);
            model.erase(model.begin());
          }
          break;
        case 1:
          spool->reset();
          spool = Spool::open(path, 1 << 16);
          break;
        default:
          const auto text = *rc::gen::arbitrary<std::string>();
          if ((*spool)->append(text)) model.push_back(text);
      }
      RC_ASSERT(contents(**spool) == model);
    }
  }));
}

namespace {

// Returns true if `text` occurs anywhere in the file.
bool file_holds(const std::filesystem::path& path, const std::string& text) {
  return file_bytes(path).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("Popped entries are erased from the file, whether or not others are left", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  auto spool = Spool::open(path, 1 << 20);
  REQUIRE(spool);
  for (int i = 0; i < 100; ++i) REQUIRE((*spool)->append("reader-" + std::to_string(i) + "!"));
  for (int i = 0; i < 100; ++i) {
    const std::string name = "reader-" + std::to_string(i) + "!";
    REQUIRE(file_holds(path, name));
    (*spool)->pop_to((*spool)->at((*spool)->begin())->next);
    REQUIRE(!file_holds(path, name));
    REQUIRE(file_holds(path, "reader-99!") == (i < 99));
  }
  CHECK(std::filesystem::file_size(path) == 4096);
  REQUIRE((*spool)->append("again"));
  CHECK(contents(**spool) == std::vector<std::string>{"again"});
}

TEST_CASE("An erased entry leaves the file, and those around it are kept", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  auto spool = Spool::open(path, 1 << 20);
  REQUIRE(spool);
  for (const char* each : {"first", "second", "third"}) REQUIRE((*spool)->append(each));
  const std::uint64_t second = (*spool)->at((*spool)->begin())->next;
  const std::uint64_t third = (*spool)->at(second)->next;
  (*spool)->erase(second);
  SECTION("when the process goes on") {}
  SECTION("when the next one opens the file") {
    spool->reset();
    spool = Spool::open(path, 1 << 20);
    REQUIRE(spool);
  }
  SECTION("when it is erased after it was torn, as by a process killed in erase()") {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(second) + 8);  // the checksum
    file.put('X');
    file.close();
    REQUIRE((*spool)->at(second)->torn);
    (*spool)->erase(second);
  }
  CHECK(!file_holds(path, "second"));
  CHECK((*spool)->at((*spool)->begin())->payload == "first");
  CHECK(!(*spool)->at((*spool)->begin())->erased);
  const auto erased = (*spool)->at(second);
  REQUIRE(erased);
  CHECK((erased->erased && !erased->torn && erased->next == third));
  CHECK((*spool)->at(third)->payload == "third");
}

TEST_CASE("Remains of a process killed while popping or appending are erased on the next open", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  std::uint64_t second = 0, end = 0;
  {
    auto spool = Spool::open(path, 1 << 20);
    for (const char* each : {"popped", "waits", "torn"}) (*spool)->append(each);
    second = (*spool)->at((*spool)->begin())->next;
    end = (*spool)->at(second)->next;
  }
  const auto header = [&](int field, std::uint64_t value) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(8 * field);
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  };
  SECTION("begin had moved but the bytes before it remained, and the end had not moved") {
    header(1, second);
    header(2, end);
    auto spool = Spool::open(path, 1 << 20);
    REQUIRE(spool);
    CHECK(contents(**spool) == std::vector<std::string>{"waits"});
    CHECK(!(*spool)->is_damaged());
    CHECK(!file_holds(path, "popped"));
    CHECK(!file_holds(path, "torn"));
  }
  SECTION("the last entry was popped and only the end had been reset") {
    header(1, end);
    header(2, 4096);
    auto spool = Spool::open(path, 1 << 20);
    REQUIRE(spool);
    CHECK((*spool)->empty());
    for (const char* each : {"popped", "waits", "torn"}) CHECK(!file_holds(path, each));
    REQUIRE((*spool)->append("new"));
    CHECK(contents(**spool) == std::vector<std::string>{"new"});
  }
}

TEST_CASE("mentions() finds a name in any process's spool, also across two chunks", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  CHECK(!*Spool::mentions(path, "anna"));
  auto spool = Spool::open(path, 8 << 20);
  REQUIRE(spool);
  const auto add = [&](const std::string& payload) { REQUIRE((*spool)->append(payload)); };
  add("11\r\ninteraction\r\n7\r\nannabel\r\n5\r\nhanna\r\n");
  CHECK(!*Spool::mentions(path, "anna"));
  CHECK(*Spool::mentions(path, "annabel"));
  CHECK(*Spool::mentions(path, "hanna"));
  const std::string name(20, 'n');
  // The file is searched in chunks of 1 MiB after a header of 4 KiB. The name begins up to 24 bytes
  // before the end of the first chunk, or one byte after it.
  constexpr std::size_t kFileHeader = 4096, kEntryHeader = 24, kChunkEnd = kFileHeader + (1 << 20);
  const std::size_t name_at = kChunkEnd - 24 + static_cast<std::size_t>(GENERATE(range(0, 26)));
  const std::size_t payload_at = kFileHeader + (*spool)->bytes() + kEntryHeader;
  add(std::string(name_at - payload_at - 2, 'x') + "\r\n" + name + "\r\n");
  REQUIRE(file_bytes(path).find(name) == name_at);
  CHECK(*Spool::mentions(path, name));
  CHECK(!*Spool::mentions(path, name.substr(1)));
  add("4\r\nanna\r\n");
  CHECK(*Spool::mentions(path, "anna"));
  while (const auto record = (*spool)->at((*spool)->begin())) (*spool)->pop_to(record->next);
  CHECK(!*Spool::mentions(path, "anna"));
}
