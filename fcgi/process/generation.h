// A generation is a set of workers of one configuration: the same settings, and the same of what
// was read beside them. It has a position for each worker it may have; an open one wants one worker
// that serves. The rest follows: an open position without one gets a fork, at once or after a
// delay. How many are open is scaling.h's business.
#pragma once

#include <cstdint>
#include <vector>

#include "core/config/config.h"
#include "fcgi/process/companion.h"
#include "fcgi/process/respawn.h"
#include "fcgi/process/spare.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

// A configuration as it was read once, and what is run by it. The functions hold what was read
// beside the settings (secrets, lists): whoever is forked later has what its siblings have,
// whatever the files say by then.
struct Plan {
  LoadedConfig configuration;
  WorkerMain worker;
  CompanionMain recorder;  // none: this deployment has no recorder here
  CompanionMain keeper{};  // of the model; none: there is none
};

struct Position {
  bool open = false;
  int deaths = 0;           // in a row, before READY
  SteadyTime not_before{};  // of the next fork
};

struct Generation {
  // `before`: workers of the generation that it takes over from; 0: it is the first.
  Generation(std::uint32_t number, Plan plan, std::size_t before = 0);
  // Opens so many more positions, or all that are left.
  void open(std::size_t more);
  std::size_t wanted() const;  // open positions

  const std::uint32_t number;
  const Settings settings;
  const WorkerMain worker;
  const CompanionMain recorder;  // none: there is none
  const CompanionMain keeper;    // the same
  std::vector<Position> positions;
  RespawnBudget budget;
  const SpareLimits limits;
  SpareRule rule;
  bool established = false;  // all the workers it began with were ready; scaling goes on from there
};

// The most workers of a generation: pm.max_children, or when that is 0 the number of cores that
// this process may use, at least two.
std::size_t worker_count(const PoolSettings& pool);

}  // namespace freshet
