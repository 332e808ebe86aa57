// How many workers a generation should have: PHP-FPM's rules for pm = dynamic and ondemand. Pure:
// takes counts, returns an adjustment; pool_scaler.h counts and acts.
//
// A worker is idle if it is ready and has no request in flight (is_idle() in worker_slot.h) at the
// check, once a second. Busy workers accept further requests, so a pool without idle workers is not
// full: it is as busy as its cores, and more workers than cores rarely help.
#pragma once

#include <cstddef>

#include "core/config/settings.h"

namespace freshet {

enum class PoolMode { kStatic, kDynamic, kOndemand };

// The settings with each 0 replaced by its default and limited to the number of workers: 1 <=
// min_spare <= max_spare <= max_children, and start between the spare limits.
struct SpareServerLimits {
  PoolMode mode = PoolMode::kStatic;
  std::size_t start = 1, min_spare = 1, max_spare = 1, max_children = 1;
};
// REQUIRES: max_children >= 1.
SpareServerLimits spare_server_limits(const PoolSettings& pool, std::size_t max_children);

// Number of workers a generation starts with. At least `previous_workers` (0 for the first
// generation), so that a reload under load does not start small. ondemand starts with at least one:
// it proves that a worker can serve with these settings, which READY reports and a reload waits
// for. It ends after pm.process_idle_timeout.
std::size_t initial_worker_count(const SpareServerLimits& limits, std::size_t previous_workers);

struct WorkerCounts {
  std::size_t target = 0;  // workers there should be, `idle` and `starting` included
  std::size_t idle = 0;
  std::size_t starting = 0;  // not ready yet
};

struct PoolAdjustment {
  std::size_t forks = 0;
  bool retire_one = false;     // the one that has been idle longest
  bool reached_limit = false;  // pm.max_children is too low; reported once until there is room again
};

class SpareServerPolicy {
 public:
  // dynamic, once a second. Forks as many as are missing, at most 1, 2, 4 … 32, doubling from one
  // check to the next. Retires one worker per check. Starting workers count as idle.
  PoolAdjustment adjust_dynamic(const SpareServerLimits& limits, const WorkerCounts& counts);
  // ondemand, when a connection waits to be accepted. Forks one worker at a time, which accepts all
  // waiting connections.
  PoolAdjustment on_pending_connection(const SpareServerLimits& limits, const WorkerCounts& counts);

 private:
  bool reaches_limit(bool needed, bool full);
  std::size_t spawn_rate_ = 1;
  bool at_limit_ = false;
};

}  // namespace freshet
