// Histogram of durations with fixed bounds, for one process. The version shared between processes
// is the same array of atomics (fcgi/process/scoreboard.h).
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace freshet {

// Upper bounds in microseconds, inclusive; longer durations go into one more bucket. They range
// from a reply out of memory (20 µs) to the budget of a bulk write.
inline constexpr std::array<std::int64_t, 17> kDurationBounds{
    50,     100,     250,     500,     1'000,     2'500,     5'000,      10'000,    25'000,
    50'000, 100'000, 250'000, 500'000, 1'000'000, 2'500'000, 10'000'000, 30'000'000};
inline constexpr std::size_t kDurationBuckets = kDurationBounds.size() + 1;

// O(log buckets); about 5 ns.
inline std::size_t duration_bucket(std::chrono::microseconds duration) {
  const auto bound = std::ranges::lower_bound(kDurationBounds, duration.count());
  return static_cast<std::size_t>(bound - kDurationBounds.begin());
}

struct Histogram {
  std::array<std::uint64_t, kDurationBuckets> counts{};
  std::uint64_t sum_us = 0;

  void add(std::chrono::microseconds duration) {
    ++counts[duration_bucket(duration)];
    sum_us += static_cast<std::uint64_t>(std::max<std::int64_t>(0, duration.count()));
  }
};

}  // namespace freshet
