#include "fcgi/process/spare_servers.h"

#include <algorithm>
#include <utility>

namespace freshet {
namespace {

constexpr std::size_t kMaxForks = 32;  // per check; PHP-FPM's default for pm.max_spawn_rate

std::size_t value_or_default(int configured, std::size_t fallback) {
  return configured > 0 ? static_cast<std::size_t>(configured) : fallback;
}

PoolMode pool_mode(const PoolSettings& pool) {
  if (pool.pm_mode == "dynamic") return PoolMode::kDynamic;
  return pool.pm_mode == "ondemand" ? PoolMode::kOndemand : PoolMode::kStatic;
}

}  // namespace

SpareServerLimits spare_server_limits(const PoolSettings& pool, std::size_t max_children) {
  SpareServerLimits limits{.mode = pool_mode(pool), .max_children = max_children};
  limits.max_spare = std::min(value_or_default(pool.max_spare_servers, max_children), max_children);
  limits.min_spare = std::min(value_or_default(pool.min_spare_servers, 1), limits.max_spare);
  const std::size_t halfway = limits.min_spare + (limits.max_spare - limits.min_spare) / 2;
  limits.start =
      std::clamp(value_or_default(pool.start_servers, halfway), limits.min_spare, limits.max_spare);
  return limits;
}

std::size_t initial_worker_count(const SpareServerLimits& limits, std::size_t previous_workers) {
  if (limits.mode == PoolMode::kStatic) return limits.max_children;
  const std::size_t minimum = limits.mode == PoolMode::kDynamic ? limits.start : 1;
  return std::min(std::max(minimum, previous_workers), limits.max_children);
}

bool SpareServerPolicy::reaches_limit(bool needed, bool full) {
  if (!full) at_limit_ = false;
  return needed && full && !std::exchange(at_limit_, true);
}

PoolAdjustment SpareServerPolicy::adjust_dynamic(const SpareServerLimits& limits,
                                                 const WorkerCounts& counts) {
  const std::size_t spare = counts.idle + counts.starting;
  const bool too_few = spare < limits.min_spare;
  const bool full = counts.target >= limits.max_children;
  PoolAdjustment adjustment;
  adjustment.reached_limit = reaches_limit(too_few, full);
  if (too_few && !full) {
    adjustment.forks =
        std::min({spawn_rate_, limits.min_spare - spare, limits.max_children - counts.target, kMaxForks});
    spawn_rate_ = std::min(2 * spawn_rate_, kMaxForks);
    return adjustment;
  }
  spawn_rate_ = 1;
  adjustment.retire_one = counts.idle > limits.max_spare;
  return adjustment;
}

PoolAdjustment SpareServerPolicy::on_pending_connection(const SpareServerLimits& limits,
                                                        const WorkerCounts& counts) {
  const bool needed = counts.idle + counts.starting == 0;
  const bool full = counts.target >= limits.max_children;
  PoolAdjustment adjustment;
  adjustment.reached_limit = reaches_limit(needed, full);
  adjustment.forks = needed && !full ? 1 : 0;
  return adjustment;
}

}  // namespace freshet
