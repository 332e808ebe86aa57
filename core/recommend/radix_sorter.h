// Candidates in the order of a number of theirs, and where each stands in it: a radix sort, since
// comparisons of random numbers are mostly guessed wrong by the processor.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace freshet::recommend {

// The order of numbers ≥ 0 as an integer's, in steps of 1e-6 of them.
inline std::uint32_t coarse_key(double number) {
  return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(number + 0.0) >> 32U);
}

class RadixSorter {  // scratch memory, reused
 public:
  // The positions of `keys`, by key, the greatest first; equal ones in no order. Valid until the
  // next call. O(keys).
  std::span<std::uint32_t> sort_descending(std::span<const std::uint32_t> keys);

 private:
  struct Entry {
    std::uint32_t key = 0, position = 0;
  };
  std::vector<Entry> entries_, scratch_;
  std::vector<std::uint32_t> positions_;
};

}  // namespace freshet::recommend
