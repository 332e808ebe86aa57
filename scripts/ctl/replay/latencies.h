// Latencies of any number of requests in a fixed space: buckets 1.1 % wide, from 1 µs to half an
// hour.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace freshet::ctl {

class Latencies {
 public:
  using Microseconds = std::chrono::duration<double, std::micro>;
  void add(std::chrono::nanoseconds span) {
    const double us = std::max(1.0, Microseconds(span).count());
    const auto bucket = static_cast<std::size_t>(std::log2(us) * kPerDoubling);
    ++counts_[std::min(bucket, counts_.size() - 1)];
    ++total_;
    greatest_ = std::max(greatest_, span);
  }
  // The latency that `share` of the requests did not exceed, up to the width of a bucket; 0 without
  // any. REQUIRES: 0 < share ≤ 1.
  Microseconds percentile(double share) const {
    const auto wanted = static_cast<std::int64_t>(std::ceil(share * static_cast<double>(total_)));
    std::int64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size() && total_ > 0; ++i) {
      seen += counts_[i];
      if (seen >= wanted) {
        const Microseconds edge(std::exp2(static_cast<double>(i + 1) / kPerDoubling));
        return std::min(edge, Microseconds(greatest_));
      }
    }
    return Microseconds(0);
  }
  std::chrono::nanoseconds greatest() const { return greatest_; }

 private:
  static constexpr std::size_t kPerDoubling = 64;
  std::array<std::int64_t, 31 * kPerDoubling> counts_{};
  std::int64_t total_ = 0;
  std::chrono::nanoseconds greatest_{0};
};

}  // namespace freshet::ctl
