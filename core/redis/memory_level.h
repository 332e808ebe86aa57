// Memory usage of Redis and a forecast of when it is full. From kFullUsage of maxmemory on, public
// writes are rejected, so that the site's own requests (hiding, erasing, items) still have memory.
// They are accepted again below kResumeUsage.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/time.h"

namespace freshet::redis {

inline constexpr double kFullUsage = 0.90, kResumeUsage = 0.85;
inline constexpr milliseconds kGrowthWindow{3'600'000}, kMinGrowthWindow{600'000};

struct MemoryLevel {
  std::int64_t used = 0, max = 0;  // bytes; max 0: no maxmemory
  std::int64_t full = 0;           // 1: public writes are rejected
  std::int64_t at_ms = 0;          // time of the measurement; 0: none yet
  // Growth is measured from `baseline`: the first sample, or one taken one to two kGrowthWindow
  // ago.
  struct Sample {
    std::int64_t at_ms = 0, used = 0;
  };
  Sample baseline, next_baseline;
};

// Used fraction of maxmemory according to INFO memory; 0 if INFO does not report it or there
// is no maxmemory.
double memory_usage(std::string_view info);
// Applies the output of INFO memory at `now` to `before`. nullopt if it lacks the fields.
std::optional<MemoryLevel> update_memory_level(std::string_view info, const MemoryLevel& before,
                                               milliseconds now);

// Hours until kFullUsage at the growth rate since `baseline`; 0 if it is reached. nullopt without
// maxmemory, without growth, or if `baseline` is younger than kMinGrowthWindow.
std::optional<double> hours_until_full(const MemoryLevel& level);

}  // namespace freshet::redis
