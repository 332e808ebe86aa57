#include "fcgi/process/generation.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace freshet {

namespace {

// One that dies, or is replaced, leaves another that serves meanwhile.
constexpr std::size_t kLeastByDefault = 2;

}  // namespace

std::size_t worker_count(const PoolSettings& pool) {
  if (pool.max_children > 0) return static_cast<std::size_t>(pool.max_children);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return kLeastByDefault;
  return std::max(kLeastByDefault, static_cast<std::size_t>(CPU_COUNT(&cores)));
}

Generation::Generation(std::uint32_t n, Plan plan, std::size_t before)
    : number(n),
      settings(std::move(plan.configuration.settings)),
      worker(std::move(plan.worker)),
      recorder(std::move(plan.recorder)),
      keeper(std::move(plan.keeper)),
      positions(worker_count(settings.pool)),
      budget(positions.size()),
      limits(spare_limits(settings.pool, positions.size())) {
  open(first_workers(limits, before));
}

void Generation::open(std::size_t more) {
  for (Position& position : positions) {
    if (more == 0) return;
    if (position.open) continue;
    position = Position{.open = true};
    --more;
  }
}

std::size_t Generation::wanted() const {
  return static_cast<std::size_t>(std::ranges::count_if(positions, &Position::open));
}

}  // namespace freshet
