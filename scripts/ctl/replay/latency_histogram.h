// Histogram of request latencies in constant space: buckets 1.1 % wide, from 1 µs to half an hour.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace freshet::ctl {

class LatencyHistogram {
 public:
  using Microseconds = std::chrono::duration<double, std::micro>;
  void add(std::chrono::nanoseconds span) {
    const double us = std::max(1.0, Microseconds(span).count());
    const auto bucket = static_cast<std::size_t>(std::log2(us) * kBucketsPerOctave);
    ++counts_[std::min(bucket, counts_.size() - 1)];
    ++total_;
    max_ = std::max(max_, span);
  }
  // Latency that a share of `quantile` of the requests did not exceed, rounded up to the bucket's
  // edge. 0 if empty. REQUIRES: 0 < quantile ≤ 1.
  Microseconds percentile(double quantile) const {
    const auto target = static_cast<std::int64_t>(std::ceil(quantile * static_cast<double>(total_)));
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size() && total_ > 0; ++i) {
      seen += counts_[i];
      if (seen >= target) {
        const Microseconds edge(std::exp2(static_cast<double>(i + 1) / kBucketsPerOctave));
        return std::min(edge, Microseconds(max_));
      }
    }
    return Microseconds(0);
  }
  std::chrono::nanoseconds max() const { return max_; }

 private:
  static constexpr std::size_t kBucketsPerOctave = 64;
  std::array<std::int64_t, 31 * kBucketsPerOctave> counts_{};
  std::int64_t total_ = 0;
  std::chrono::nanoseconds max_{0};
};

}  // namespace freshet::ctl
