// Sorts candidates by an integer key. Uses a radix sort, because comparisons of random numbers
// defeat the branch predictor.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

namespace freshet::recommend {

// Maps a number ≥ 0 to an integer with the same order, with a relative resolution of 1e-6.
inline std::uint32_t coarse_key(double number) {
  return static_cast<std::uint32_t>(std::bit_cast<std::uint64_t>(number + 0.0) >> 32U);
}

class RadixSorter {  // reuses its scratch memory
 public:
  // Returns the positions of `keys`, highest key first; the order of equal keys is unspecified.
  // Valid until the next call. O(keys).
  std::span<std::uint32_t> sort_descending(std::span<const std::uint32_t> keys);

 private:
  struct Entry {
    std::uint32_t key = 0, position = 0;
  };
  std::vector<Entry> entries_, scratch_;
  std::vector<std::uint32_t> positions_;
};

}  // namespace freshet::recommend
