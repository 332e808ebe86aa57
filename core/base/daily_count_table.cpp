#include "core/base/daily_count_table.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace freshet {
namespace {

constexpr unsigned kCountBits = 22, kDayBits = 14;
constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kCountBits) - 1;
constexpr std::uint64_t kDayMask = ((std::uint64_t{1} << kDayBits) - 1) << kCountBits;

std::uint64_t day_bits(std::int64_t day) {
  return (static_cast<std::uint64_t>(day) << kCountBits) & kDayMask;
}

// The word of the key on that day with a count of 0.
std::uint64_t empty_word(std::uint64_t key, std::int64_t day) {
  return key << (kCountBits + kDayBits) | day_bits(day);
}

std::uint64_t count_in(std::uint64_t word) { return word & kCountMask; }

}  // namespace

DailyCountTable::DailyCountTable(std::size_t bytes)
    : sets_(bytes / kWordSetBytes),
      memory_(
          mmap(nullptr, sets_ * kWordSetBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
  if (memory_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "daily count table");
}

DailyCountTable::~DailyCountTable() { munmap(memory_, sets_ * kWordSetBytes); }

// new_count(current) returns the new count; a key without a counter has 0.
template <class NewCount>
void DailyCountTable::update(std::uint64_t key, std::int64_t day, const NewCount& new_count) {
  const std::uint64_t empty = empty_word(key, day);
  const auto has_key = [&](std::uint64_t word) { return (word & ~kCountMask) == empty; };
  update_word(
      word_set_for(memory_, sets_, key), has_key,
      [&](std::uint64_t word) { return (word & kDayMask) == day_bits(day) ? count_in(word) : 0; },
      [&](std::uint64_t word) {
        const std::uint64_t count = has_key(word) ? count_in(word) : 0;
        const std::uint64_t updated = new_count(count);
        return updated == count ? word : empty | updated;
      });
}

std::uint32_t DailyCountTable::increment(std::uint64_t key, std::int64_t day) {
  std::uint64_t number = 0;
  update(key, day,
         [&](std::uint64_t count) { return number = std::min<std::uint64_t>(count + 1, kMaxCount); });
  return static_cast<std::uint32_t>(number);
}

std::uint32_t DailyCountTable::count(std::uint64_t key, std::int64_t day) const {
  const std::uint64_t empty = empty_word(key, day);
  for (const SharedWord& each : word_set_for(memory_, sets_, key)) {
    const std::uint64_t word = each.load(std::memory_order_relaxed);
    if ((word & ~kCountMask) == empty) return static_cast<std::uint32_t>(count_in(word));
  }
  return 0;
}

void DailyCountTable::decrement(std::uint64_t key, std::int64_t day, std::optional<std::uint32_t> only_from) {
  update(key, day, [&](std::uint64_t count) {
    return count == 0 || (only_from && count != *only_from) ? count : count - 1;
  });
}

}  // namespace freshet
