// A generation is a set of workers of one configuration: the same settings, and the same of what
// was read beside them. It has a position for each worker it may have; an open one wants one worker
// that serves. The rest follows: an open position without one gets a fork, at once or after a
// delay. How many are open is scaling.h's business.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/config.h"
#include "fcgi/process/helper_process.h"
#include "fcgi/process/respawn.h"
#include "fcgi/process/spare_servers.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

// A configuration as it was read once, and what is run by it. The functions hold what was read
// beside the settings (secrets, lists): whoever is forked later has what its siblings have,
// whatever the files say by then.
struct GenerationSpec {
  LoadedConfig configuration;
  WorkerMain worker_main;
  HelperMain recorder_main;  // none: this deployment has no recorder here
  HelperMain model_publisher_main{};  // of the model; none: there is none
};

struct WorkerPosition {
  bool open = false;
  int failed_starts = 0;           // in a row, before READY
  SteadyTime next_fork_at{};  // of the next fork
};

struct Generation {
  // `before`: workers of the generation that it takes over from; 0: it is the first.
  Generation(std::uint32_t number, GenerationSpec spec, std::size_t previous_workers = 0);
  // Opens so many more positions, or all that are left.
  void open_positions(std::size_t count);
  std::size_t open_count() const;  // open positions

  const std::uint32_t number;
  const Settings settings;
  const WorkerMain worker_main;
  const HelperMain recorder_main;  // none: there is none
  const HelperMain model_publisher_main;    // the same
  std::vector<WorkerPosition> positions;
  RespawnBudget respawn_budget;
  const SpareServerLimits spare_limits;
  SpareServerPolicy spare_policy;
  bool was_ready = false;  // all the workers it began with were ready; scaling goes on from there
};

// The most workers of a generation: pm.max_children, or when that is 0 the number of cores that
// this process may use, at least two.
std::size_t max_worker_count(const PoolSettings& pool);

}  // namespace freshet
