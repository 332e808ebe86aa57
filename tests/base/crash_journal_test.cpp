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

TEST_CASE("What was noted is taken once", "[id_note]") {
  const auto note = std::make_unique<CrashJournal>();
  CrashJournalWriter noter(note.get(), 2s);
  const CrashJournalWriter::Clock::time_point now{100s};
  for (const char* id : {"a", "b", "a", ""}) noter.add(id, now);
  CHECK(sorted(note->drain()) == Ids{"", "a", "b"});
  CHECK(note->drain().empty());
}

TEST_CASE("An id stays noted for the span, and not for more than twice that", "[id_note]") {
  const auto note = std::make_unique<CrashJournal>();
  CrashJournalWriter noter(note.get(), 2s);
  const CrashJournalWriter::Clock::time_point now{100s};
  noter.add("a", now);
  noter.add("b", now + 1999ms);
  noter.add("c", now + 2s);
  noter.add("d", now + 3999ms);
  CHECK(sorted(note->drain()) == Ids{"a", "b", "c", "d"});
  noter.add("e", now + 4s);
  noter.add("f", now + 6s);
  noter.add("g", now + 8s);
  CHECK(sorted(note->drain()) == Ids{"f", "g"});
}

TEST_CASE("Clearing forgets both halves, and an id can be noted again", "[id_note]") {
  const auto note = std::make_unique<CrashJournal>();
  CrashJournalWriter noter(note.get(), 2s);
  noter.add("a", CrashJournalWriter::Clock::time_point{100s});
  noter.add("b", CrashJournalWriter::Clock::time_point{102s});
  noter.clear();
  noter.add("b", CrashJournalWriter::Clock::time_point{102s});
  CHECK(note->drain() == Ids{"b"});
}

TEST_CASE("What finds no room is left out", "[id_note]") {
  const auto note = std::make_unique<CrashJournal>();
  CrashJournalWriter noter(note.get(), 2s);
  const CrashJournalWriter::Clock::time_point now{100s};
  const std::size_t fit = CrashJournal::kBytes / 129;
  for (std::size_t i = 0; i < 2 * fit; ++i) {
    std::string id = std::to_string(i);
    noter.add(id.append(128 - id.size(), 'x'), now);
  }
  noter.add(std::string(256, 'y'), now);
  CHECK(note->drain().size() == fit);
}

TEST_CASE("Without a note nothing happens", "[id_note]") {
  CrashJournalWriter noter(nullptr, 2s);
  CHECK_NOTHROW(noter.add("a", CrashJournalWriter::Clock::now()));
  CHECK_NOTHROW(noter.clear());
}

TEST_CASE("What a killed process noted is found", "[id_note]") {
  void* memory = mmap(nullptr, sizeof(CrashJournal), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* note = new (memory) CrashJournal;
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    CrashJournalWriter(note, 2s).add("a", CrashJournalWriter::Clock::now());
    raise(SIGKILL);
  }
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(note->drain() == Ids{"a"});
  munmap(memory, sizeof(CrashJournal));
}
