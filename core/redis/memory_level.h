// Memory usage of Redis, a forecast of when it is full, and what anonymous clients may use of it.
// From kFullUsage of maxmemory on, public writes are queued in the spool, so that the site's own
// requests (hiding, erasing, items) still have memory. They are written directly again below
// kResumeUsage. From kScarceUsage on, anonymous writes cost their network more tokens, so that the
// heaviest networks are refused first (write_cost).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/time.h"

namespace freshet::redis {

inline constexpr double kFullUsage = 0.90, kResumeUsage = 0.85, kScarceUsage = 0.60;
// The event ids of one network's anonymous clients take at most this share of maxmemory. One takes
// at most kEventIdBytes times event_id_units() (measured: 263 bytes, or 404 if the article's id has
// 128).
inline constexpr double kEventIdShare = 0.01;
inline constexpr std::int64_t kEventIdBytes = 512;
inline constexpr milliseconds kGrowthWindow{3'600'000}, kMinGrowthWindow{600'000};

struct MemoryLevel {
  std::int64_t used = 0, max = 0;  // bytes; max 0: no maxmemory
  std::int64_t full = 0;           // 1: public writes are queued
  std::int64_t at_ms = 0;          // time of the measurement; 0: none yet
  // Growth is measured from `baseline`: the first sample, or one taken one to two kGrowthWindow
  // ago.
  struct Sample {
    std::int64_t at_ms = 0, used = 0;
  };
  Sample baseline, next_baseline;

  // Used fraction of maxmemory; 0 if there is none.
  double usage() const { return max > 0 ? static_cast<double>(used) / static_cast<double>(max) : 0; }
};

// Tokens that an anonymous client's write costs its network: 1 up to kScarceUsage, then the square
// of the ratio between the memory that was left there and what is left now (4 at 75 %, 9 at 80 %,
// 36 at 85 %). Infinite from kFullUsage on: the whole bucket.
double write_cost(double usage);
// The number of event ids that Redis may remember of one network's anonymous clients. 0 without
// maxmemory: no limit.
std::int64_t event_ids_per_network(const MemoryLevel& level);

// How many event ids one counts as whose key or member contains `name`, which may be long: the
// article's id, or the event id itself.
std::int64_t event_id_units(std::string_view name);

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
