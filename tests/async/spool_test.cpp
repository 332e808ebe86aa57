#include "core/async/spool.h"

#include <rapidcheck.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

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

TEST_CASE("What was spooled is there for the next process, in order", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  const pid_t child = fork();
  if (child == 0) {
    auto spool = Spool::open(path, 1 << 20);
    for (int i = 0; i < 1000; ++i) (*spool)->append(Spool::Kind::kCommand, "record " + std::to_string(i));
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

TEST_CASE("A spool belongs to one process at a time", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  auto first = Spool::open(path, 1 << 20);
  REQUIRE(first);
  const auto second = Spool::open(path, 1 << 20);
  REQUIRE_FALSE(second);
  CHECK(second.error().reason == "spool_locked");
  first->reset();
  CHECK(Spool::open(path, 1 << 20));
}

TEST_CASE("A full spool refuses and keeps what it has", "[spool]") {
  TemporaryDirectory directory;
  auto spool = Spool::open(directory.path() / "a.spool", 10000);
  REQUIRE(spool);
  int taken = 0;
  while ((*spool)->append(Spool::Kind::kCommand, std::string(100, 'x'))) ++taken;
  CHECK(taken > 50);
  CHECK(taken <= 100);
  CHECK(contents(**spool).size() == static_cast<std::size_t>(taken));
}

TEST_CASE("An emptied spool starts over, so it never fills up by use alone", "[spool]") {
  TemporaryDirectory directory;
  auto spool = Spool::open(directory.path() / "a.spool", 10000);
  REQUIRE(spool);
  for (int i = 0; i < 1000; ++i) {
    REQUIRE((*spool)->append(Spool::Kind::kCommand, std::string(100, 'x')));
    (*spool)->pop_to((*spool)->at((*spool)->begin())->next);
  }
  CHECK((*spool)->empty());
}

TEST_CASE("A torn record ends the file and what stood before it is kept", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  {
    auto spool = Spool::open(path, 1 << 20);
    for (int i = 0; i < 3; ++i) (*spool)->append(Spool::Kind::kCommand, "0123456789abcdef");
  }
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(4096 + 2 * 32 + 16 + 5);  // inside the third payload
  file.put('X');
  file.close();
  auto spool = Spool::open(path, 1 << 20);
  REQUIRE(spool);
  CHECK(contents(**spool).size() == 2);
  CHECK((*spool)->damaged());
}

TEST_CASE("A file that is not a spool is left alone", "[spool]") {
  TemporaryDirectory directory;
  const auto path = directory.path() / "a.spool";
  std::ofstream(path) << std::string(5000, 'z');
  const auto spool = Spool::open(path, 1 << 20);
  REQUIRE_FALSE(spool);
  CHECK(spool.error().reason == "spool_format");
  CHECK(std::filesystem::file_size(path) == 5000);
}

TEST_CASE("Any appends and pops behave as a queue", "[spool]") {
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
          if ((*spool)->append(Spool::Kind::kCommand, text)) model.push_back(text);
      }
      RC_ASSERT(contents(**spool) == model);
    }
  }));
}
