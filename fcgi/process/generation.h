// A generation is a set of workers that share one configuration and the files read with it. It has
// one position for each worker that it may have; each open position should have one worker. The
// pool forks a worker for an open position without one, at once or after a delay. PoolScaler
// decides how many positions are open.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/config.h"
#include "fcgi/process/helper_process.h"
#include "fcgi/process/respawn.h"
#include "fcgi/process/spare_servers.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

// A configuration that was read once, with the functions that run it. The functions own what was
// read with the settings (secrets, client lists), so that a process forked later gets the same
// values as its siblings even if the files changed.
struct GenerationSpec {
  LoadedConfig configuration;
  WorkerMain worker_main;
  HelperMain recorder_main;           // empty: no recorder runs here
  HelperMain model_publisher_main{};  // empty: there is none
};

struct WorkerPosition {
  bool open = false;
  int failed_starts = 0;  // consecutive deaths before READY
  SteadyTime next_fork_at{};
};

struct Generation {
  // `previous_workers`: workers of the generation that this one replaces; 0 for the first.
  Generation(std::uint32_t number, GenerationSpec spec, std::size_t previous_workers = 0);
  // Opens `count` more positions, or all that are closed if there are fewer.
  void open_positions(std::size_t count);
  std::size_t open_count() const;

  const std::uint32_t number;
  const Settings settings;
  const WorkerMain worker_main;
  const HelperMain recorder_main;         // empty: no recorder runs here
  const HelperMain model_publisher_main;  // empty: there is none
  std::vector<WorkerPosition> positions;
  RespawnBudget respawn_budget;
  const SpareServerLimits spare_limits;
  SpareServerPolicy spare_policy;
  bool was_ready = false;  // all initial workers were ready; PoolScaler adjusts the number from then on
};

// Maximum number of workers of a generation: pm.max_children, or if that is 0 the number of cores
// that this process may use, at least 2.
std::size_t max_worker_count(const PoolSettings& pool);

}  // namespace freshet
