#include "fcgi/process/generation.h"

#include <sched.h>

#include <algorithm>
#include <utility>

namespace freshet {

namespace {

// With two workers, one serves while the other is being replaced.
constexpr std::size_t kDefaultMinWorkers = 2;

}  // namespace

std::size_t max_worker_count(const PoolSettings& pool) {
  if (pool.max_children > 0) return static_cast<std::size_t>(pool.max_children);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return kDefaultMinWorkers;
  return std::max(kDefaultMinWorkers, static_cast<std::size_t>(CPU_COUNT(&cores)));
}

Generation::Generation(std::uint32_t n, GenerationSpec spec, std::size_t previous_workers)
    : number(n),
      settings(std::move(spec.configuration.settings)),
      worker_main(std::move(spec.worker_main)),
      recorder_main(std::move(spec.recorder_main)),
      model_publisher_main(std::move(spec.model_publisher_main)),
      positions(max_worker_count(settings.pool)),
      respawn_budget(positions.size()),
      spare_limits(spare_server_limits(settings.pool, positions.size())) {
  open_positions(initial_worker_count(spare_limits, previous_workers));
}

void Generation::open_positions(std::size_t count) {
  for (WorkerPosition& position : positions) {
    if (count == 0) return;
    if (position.open) continue;
    position = WorkerPosition{.open = true};
    --count;
  }
}

std::size_t Generation::open_count() const {
  return static_cast<std::size_t>(std::ranges::count_if(positions, &WorkerPosition::open));
}

}  // namespace freshet
