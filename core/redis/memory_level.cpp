#include "core/redis/memory_level.h"

#include <algorithm>
#include <charconv>

namespace freshet::redis {
namespace {

// The number of the line "name:number".
std::optional<std::int64_t> number_of(std::string_view info, std::string_view name) {
  for (std::size_t at = info.find(name); at != info.npos; at = info.find(name, at + 1)) {
    const std::size_t colon = at + name.size();
    if ((at > 0 && info[at - 1] != '\n') || colon >= info.size() || info[colon] != ':') continue;
    std::int64_t number = 0;
    const auto read = std::from_chars(info.data() + colon + 1, info.data() + info.size(), number);
    if (read.ec == std::errc()) return number;
  }
  return std::nullopt;
}

}  // namespace

double memory_share(std::string_view info) {
  const auto used = number_of(info, "used_memory"), most = number_of(info, "maxmemory");
  return used && most && *most > 0 ? static_cast<double>(*used) / static_cast<double>(*most) : 0;
}

std::optional<MemoryLevel> memory_level(std::string_view info, const MemoryLevel& before, milliseconds now) {
  const auto used = number_of(info, "used_memory"), most = number_of(info, "maxmemory");
  if (!used || !most) return std::nullopt;
  MemoryLevel level = before;
  level.used = *used;
  level.most = *most;
  level.at_ms = now.count();
  const double share = memory_share(info);
  level.full = share >= kFull || (before.full != 0 && share >= kRoom) ? 1 : 0;
  const MemoryLevel::Look look{now.count(), *used};
  if (before.then.at_ms == 0) level.then = level.later = look;
  if (look.at_ms - level.later.at_ms >= kGrowthSpan.count()) {
    level.then = level.later;
    level.later = look;
  }
  return level;
}

std::optional<double> hours_left(const MemoryLevel& level) {
  if (level.most == 0) return std::nullopt;
  const double room = kFull * static_cast<double>(level.most) - static_cast<double>(level.used);
  if (room <= 0) return 0;
  const std::int64_t span = level.at_ms - level.then.at_ms, grown = level.used - level.then.used;
  if (span < kShortest.count() || grown <= 0) return std::nullopt;
  return room / static_cast<double>(grown) * static_cast<double>(span) / 3.6e6;
}

}  // namespace freshet::redis
