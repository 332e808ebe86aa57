// How full Redis is, and how soon it will be. At kFull of maxmemory public writes stop, so that
// what the site itself sends (hiding, erasing, items) still has room; below kRoom they go on.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/time.h"

namespace freshet::redis {

inline constexpr double kFullUsage = 0.90, kResumeUsage = 0.85;
inline constexpr milliseconds kGrowthWindow{3'600'000}, kMinGrowthWindow{600'000};

struct MemoryLevel {
  std::int64_t used = 0, max = 0;  // bytes; most 0: there is no maxmemory
  std::int64_t full = 0;            // 1: public writes wait
  std::int64_t at_ms = 0;           // when that was seen; 0: never yet
  // Growth is measured since `then`, which is one to two kGrowthSpan ago, or the first look.
  struct Sample {
    std::int64_t at_ms = 0, used = 0;
  };
  Sample baseline, next_baseline;
};

// Which part of maxmemory is used, by INFO memory; 0: it does not say so, or there is none.
double memory_usage(std::string_view info);
// What INFO memory says, at `now`, after `before`. nullopt: it says nothing.
std::optional<MemoryLevel> update_memory_level(std::string_view info, const MemoryLevel& before, milliseconds now);

// Until kFull is reached if it goes on as since `then`; 0: it is. nullopt: no maxmemory, no growth,
// or `then` is not kShortest ago.
std::optional<double> hours_until_full(const MemoryLevel& level);

}  // namespace freshet::redis
