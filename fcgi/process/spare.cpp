#include "fcgi/process/spare.h"

#include <algorithm>
#include <utility>

namespace freshet {
namespace {

constexpr std::size_t kMostForks = 32;  // a look; PHP-FPM's default of pm.max_spawn_rate

std::size_t or_else(int configured, std::size_t otherwise) {
  return configured > 0 ? static_cast<std::size_t>(configured) : otherwise;
}

PoolMode mode_of(const PoolSettings& pool) {
  if (pool.pm_mode == "dynamic") return PoolMode::kDynamic;
  return pool.pm_mode == "ondemand" ? PoolMode::kOndemand : PoolMode::kStatic;
}

}  // namespace

SpareLimits spare_limits(const PoolSettings& pool, std::size_t max_children) {
  SpareLimits limits{.mode = mode_of(pool), .max_children = max_children};
  limits.max_spare = std::min(or_else(pool.max_spare_servers, max_children), max_children);
  limits.min_spare = std::min(or_else(pool.min_spare_servers, 1), limits.max_spare);
  const std::size_t halfway = limits.min_spare + (limits.max_spare - limits.min_spare) / 2;
  limits.start = std::clamp(or_else(pool.start_servers, halfway), limits.min_spare, limits.max_spare);
  return limits;
}

std::size_t first_workers(const SpareLimits& limits, std::size_t before) {
  if (limits.mode == PoolMode::kStatic) return limits.max_children;
  const std::size_t least = limits.mode == PoolMode::kDynamic ? limits.start : 1;
  return std::min(std::max(least, before), limits.max_children);
}

bool SpareRule::hits_limit(bool needed, bool full) {
  if (!full) at_limit_ = false;
  return needed && full && !std::exchange(at_limit_, true);
}

PoolChange SpareRule::look(const SpareLimits& limits, const Census& census) {
  const std::size_t spare = census.idle + census.coming;
  const bool too_few = spare < limits.min_spare;
  const bool full = census.wanted >= limits.max_children;
  PoolChange change;
  change.hit_limit = hits_limit(too_few, full);
  if (too_few && !full) {
    change.fork =
        std::min({spawn_rate_, limits.min_spare - spare, limits.max_children - census.wanted, kMostForks});
    spawn_rate_ = std::min(2 * spawn_rate_, kMostForks);
    return change;
  }
  spawn_rate_ = 1;
  change.retire_one = census.idle > limits.max_spare;
  return change;
}

PoolChange SpareRule::connection_waits(const SpareLimits& limits, const Census& census) {
  const bool needed = census.idle + census.coming == 0;
  const bool full = census.wanted >= limits.max_children;
  PoolChange change;
  change.hit_limit = hits_limit(needed, full);
  change.fork = needed && !full ? 1 : 0;
  return change;
}

}  // namespace freshet
