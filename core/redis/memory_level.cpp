#include "core/redis/memory_level.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "core/redis/partitions/key_encoding.h"

namespace freshet::redis {
namespace {

// The number in the line "name:number".
std::optional<std::int64_t> info_integer(std::string_view info, std::string_view name) {
  for (std::size_t position = info.find(name); position != info.npos;
       position = info.find(name, position + 1)) {
    const std::size_t colon = position + name.size();
    if ((position > 0 && info[position - 1] != '\n') || colon >= info.size() || info[colon] != ':') continue;
    std::int64_t number = 0;
    const auto read = std::from_chars(info.data() + colon + 1, info.data() + info.size(), number);
    if (read.ec == std::errc()) return number;
  }
  return std::nullopt;
}

}  // namespace

double memory_usage(std::string_view info) {
  const auto used = info_integer(info, "used_memory"), max = info_integer(info, "maxmemory");
  return used && max && *max > 0 ? static_cast<double>(*used) / static_cast<double>(*max) : 0;
}

double write_cost(double usage) {
  if (usage >= kFullUsage) return std::numeric_limits<double>::infinity();
  const double ratio = (kFullUsage - kScarceUsage) / (kFullUsage - std::max(usage, kScarceUsage));
  return ratio * ratio;
}

std::int64_t event_ids_per_network(const MemoryLevel& level) {
  const double bytes = kEventIdShare * static_cast<double>(level.max);
  return static_cast<std::int64_t>(bytes) / kEventIdBytes;
}

// The allocator rounds up by a quarter at most.
std::int64_t event_id_units(std::string_view name) {
  constexpr std::int64_t kFixedBytes = 263;
  const auto bytes = static_cast<std::int64_t>(encoded_size(name));
  return 1 + (kFixedBytes + bytes + bytes / 4) / kEventIdBytes;
}

std::optional<MemoryLevel> update_memory_level(std::string_view info, const MemoryLevel& before,
                                               milliseconds now) {
  const auto used = info_integer(info, "used_memory"), max = info_integer(info, "maxmemory");
  if (!used || !max) return std::nullopt;
  MemoryLevel level = before;
  level.used = *used;
  level.max = *max;
  level.at_ms = now.count();
  const double usage = level.usage();
  level.full = usage >= kFullUsage || (before.full != 0 && usage >= kResumeUsage) ? 1 : 0;
  const MemoryLevel::Sample sample{now.count(), *used};
  if (before.baseline.at_ms == 0) level.baseline = level.next_baseline = sample;
  if (sample.at_ms - level.next_baseline.at_ms >= kGrowthWindow.count()) {
    level.baseline = level.next_baseline;
    level.next_baseline = sample;
  }
  return level;
}

std::optional<double> hours_until_full(const MemoryLevel& level) {
  if (level.max == 0) return std::nullopt;
  const double remaining = kFullUsage * static_cast<double>(level.max) - static_cast<double>(level.used);
  if (remaining <= 0) return 0;
  const std::int64_t span = level.at_ms - level.baseline.at_ms, growth = level.used - level.baseline.used;
  if (span < kMinGrowthWindow.count() || growth <= 0) return std::nullopt;
  return remaining / static_cast<double>(growth) * static_cast<double>(span) / 3.6e6;
}

}  // namespace freshet::redis
