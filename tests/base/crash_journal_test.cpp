#include "core/base/crash_journal.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <memory>
#include <new>
#include <string>
#include <vector>

using namespace freshet;
using namespace std::chrono_literals;

namespace {

using Ids = std::vector<std::string>;

Ids sorted(Ids ids) {
  std::ranges::sort(ids);
  return ids;
}

}  // namespace

TEST_CASE("The journal returns each id once", "[crash_journal]") {
  const auto journal = std::make_unique<CrashJournal>();
  CrashJournalWriter writer(journal.get(), 2s);
  const CrashJournalWriter::Clock::time_point now{100s};
  for (const char* id : {"a", "b", "a", ""}) writer.add(id, now);
  CHECK(sorted(journal->drain()) == Ids{"", "a", "b"});
  CHECK(journal->drain().empty());
}

TEST_CASE("An id is kept for the retention time, and for at most twice that", "[crash_journal]") {
  const auto journal = std::make_unique<CrashJournal>();
  CrashJournalWriter writer(journal.get(), 2s);
  const CrashJournalWriter::Clock::time_point now{100s};
  writer.add("a", now);
  writer.add("b", now + 1999ms);
  writer.add("c", now + 2s);
  writer.add("d", now + 3999ms);
  CHECK(sorted(journal->drain()) == Ids{"a", "b", "c", "d"});
  writer.add("e", now + 4s);
  writer.add("f", now + 6s);
  writer.add("g", now + 8s);
  CHECK(sorted(journal->drain()) == Ids{"f", "g"});
}

TEST_CASE("Clearing empties both halves, and an id can be recorded again", "[crash_journal]") {
  const auto journal = std::make_unique<CrashJournal>();
  CrashJournalWriter writer(journal.get(), 2s);
  writer.add("a", CrashJournalWriter::Clock::time_point{100s});
  writer.add("b", CrashJournalWriter::Clock::time_point{102s});
  writer.clear();
  writer.add("b", CrashJournalWriter::Clock::time_point{102s});
  CHECK(journal->drain() == Ids{"b"});
}

TEST_CASE("An id of the maximum length and its alias are returned", "[crash_journal]") {
  const auto journal = std::make_unique<CrashJournal>();
  CrashJournalWriter writer(journal.get(), 2s);
  const std::string id(512, 'x'), alias = id + "\x1einvisible";
  writer.add(id, CrashJournalWriter::Clock::time_point{100s});
  writer.add(alias, CrashJournalWriter::Clock::time_point{100s});
  CHECK(sorted(journal->drain()) == Ids{id, alias});
}

TEST_CASE("An id that does not fit is dropped", "[crash_journal]") {
  const auto journal = std::make_unique<CrashJournal>();
  CrashJournalWriter writer(journal.get(), 2s);
  const CrashJournalWriter::Clock::time_point now{100s};
  const std::size_t fit = CrashJournal::kBytes / 130;
  for (std::size_t i = 0; i < 2 * fit; ++i) {
    std::string id = std::to_string(i);
    writer.add(id.append(128 - id.size(), 'x'), now);
  }
  writer.add(std::string(65536, 'y'), now);
  CHECK(journal->drain().size() == fit);
}

TEST_CASE("A null journal records nothing", "[crash_journal]") {
  CrashJournalWriter writer(nullptr, 2s);
  CHECK_NOTHROW(writer.add("a", CrashJournalWriter::Clock::now()));
  CHECK_NOTHROW(writer.clear());
}

TEST_CASE("The ids of a killed process can be read", "[crash_journal]") {
  void* memory =
      mmap(nullptr, sizeof(CrashJournal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* journal = new (memory) CrashJournal;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    CrashJournalWriter(journal, 2s).add("a", CrashJournalWriter::Clock::now());
    raise(SIGKILL);
  }
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(journal->drain() == Ids{"a"});
  munmap(memory, sizeof(CrashJournal));
}
