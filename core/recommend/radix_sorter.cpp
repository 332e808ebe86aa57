#include "core/recommend/radix_sorter.h"

#include <array>

namespace freshet::recommend {

std::span<std::uint32_t> RadixSorter::sort_descending(std::span<const std::uint32_t> keys) {
  constexpr std::uint32_t kBits = 8, kDigits = 1U << kBits;
  const auto size = static_cast<std::uint32_t>(keys.size());
  entries_.resize(size);
  scratch_.resize(size);
  std::array<std::array<std::uint32_t, kDigits>, 32 / kBits> counts{};
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::uint32_t key = ~keys[i];
    entries_[i] = {key, i};
    for (std::uint32_t pass = 0; pass < counts.size(); ++pass)
      ++counts[pass][key >> (pass * kBits) & (kDigits - 1)];
  }
  for (std::uint32_t pass = 0; pass < counts.size(); ++pass) {
    auto& starts = counts[pass];
    std::uint32_t start = 0;
    for (std::uint32_t& each : starts) {
      const std::uint32_t count = each;
      each = start;
      start += count;
    }
    for (const Entry& each : entries_) scratch_[starts[each.key >> (pass * kBits) & (kDigits - 1)]++] = each;
    entries_.swap(scratch_);
  }
  positions_.resize(size);
  for (std::uint32_t i = 0; i < size; ++i) positions_[i] = entries_[i].position;
  return positions_;
}

}  // namespace freshet::recommend
