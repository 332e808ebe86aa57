// A fixed-size hash table of counters in memory shared by a host's workers. A counter takes 8 bytes
// and counts one UTC day. A new key in a full set (core/base/word_set.h) replaces a counter of
// another day, otherwise the smallest one, so new keys cannot reset a large counter.
//
//   each word, highest bits first:
//     28 bits  tag of the key
//     14 bits  day since 1970, modulo 2^14
//     22 bits  count, at most kMaxCount; a word with a count of 0 is unused
//
// An update costs as much as TokenBucketTable::take().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/base/word_set.h"

namespace freshet {

class DailyCountTable {
 public:
  static constexpr std::uint32_t kMaxCount = (1U << 22U) - 1;

  // Creates an empty table, which the processes forked afterwards share. `bytes` is at least 64.
  // Throws std::system_error.
  explicit DailyCountTable(std::size_t bytes);
  DailyCountTable(const DailyCountTable&) = delete;
  DailyCountTable& operator=(const DailyCountTable&) = delete;
  ~DailyCountTable();

  // Counts the key once more and returns its count of that day. `key` is a hash that uses all bits;
  // `day` counts from 1970.
  std::uint32_t increment(std::uint64_t key, std::int64_t day);
  // The key's count of that day; 0 if the table does not have it.
  std::uint32_t count(std::uint64_t key, std::int64_t day) const;
  // Subtracts 1, if the table still has the key's count of that day; with `only_from` only if the
  // count is that.
  void decrement(std::uint64_t key, std::int64_t day, std::optional<std::uint32_t> only_from = {});

 private:
  template <class NewCount>
  void update(std::uint64_t key, std::int64_t day, const NewCount& new_count);

  std::size_t sets_;
  void* memory_;
};

}  // namespace freshet
