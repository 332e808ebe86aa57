// Ids that a process noted within the last while, in memory that others can read when it was
// killed.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace freshet {

// In shared memory; one writer at a time, through an IdNoter. Two halves take turns.
class CrashJournal {
 public:
  static constexpr std::size_t kBytes = 16'384;  // of a half: ids and a byte for each

  // What is noted, and notes nothing any more. For another process once the writer is gone: of
  // several one gets it. An id may come twice.
  std::vector<std::string> drain();

 private:
  friend class CrashJournalWriter;
  std::array<std::atomic<std::uint32_t>, 2> used_{};  // of each half
  std::array<std::array<char, kBytes>, 2> ids_{};     // per id its length, then it
};

class CrashJournalWriter {
 public:
  using Clock = std::chrono::steady_clock;

  // Null: nothing is noted. An id stays noted for `span`, and for twice that at most.
  CrashJournalWriter(CrashJournal* journal, Clock::duration retention) : journal_(journal), retention_(retention) {}
  // An id that finds no room is left out. At most 255 bytes. No system call.
  void add(std::string_view id, Clock::time_point now);
  // Notes nothing any more.
  void clear();

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  CrashJournal* journal_;
  const Clock::duration retention_;
  std::size_t half_ = 0;
  Clock::time_point switched_at_{};
  std::unordered_set<std::string, Hash, std::equal_to<>> recorded_;  // in this half
};

}  // namespace freshet
