// A journal of recently used ids in shared memory, which other processes can read after its writer
// was killed.
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

// Lives in shared memory. One writer at a time, through a CrashJournalWriter, which alternates
// between two halves.
class CrashJournal {
 public:
  static constexpr std::size_t kBytes = 16'384;  // per half: ids, with two length bytes each

  // Returns the ids and clears the journal. Call from another process after the writer has ended;
  // if several call it, exactly one gets each id. May return an id twice.
  std::vector<std::string> drain();

 private:
  friend class CrashJournalWriter;
  std::array<std::atomic<std::uint32_t>, 2> used_{};  // bytes used of each half
  std::array<std::array<char, kBytes>, 2>
      ids_{};  // per id: its length (two bytes, low first), then its bytes
};

class CrashJournalWriter {
 public:
  using Clock = std::chrono::steady_clock;

  // A null journal records nothing. An id is kept for at least `retention` and at most twice that.
  CrashJournalWriter(CrashJournal* journal, Clock::duration retention)
      : journal_(journal), retention_(retention) {}
  // Drops the id if it is longer than 65,535 bytes or the half is full. Makes no system call.
  void add(std::string_view id, Clock::time_point now);
  void clear();

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  CrashJournal* journal_;
  const Clock::duration retention_;
  std::size_t half_ = 0;
  Clock::time_point switched_at_{};
  std::unordered_set<std::string, Hash, std::equal_to<>> recorded_;  // ids in the current half
};

}  // namespace freshet
