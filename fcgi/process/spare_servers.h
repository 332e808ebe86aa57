// How many workers a generation should have: PHP-FPM's rules for pm = dynamic and ondemand. Pure:
// counts in, a change out; scaling.h takes the counts and acts.
//
// A worker is idle when it serves and no request is inside it (is_idle() in scoreboard.h) at the
// moment of the look, once a second. One that has requests takes more beside them, so a pool is not
// full when none is idle: it is as busy as its cores, and more workers than cores rarely help.
#pragma once

#include <cstddef>

#include "core/config/settings.h"

namespace freshet {

enum class PoolMode { kStatic, kDynamic, kOndemand };

// What the settings say, with each 0 replaced by what it stands for and cut to the number of
// workers there can be: 1 <= min_spare <= max_spare <= max_children, start within them.
struct SpareServerLimits {
  PoolMode mode = PoolMode::kStatic;
  std::size_t start = 1, min_spare = 1, max_spare = 1, max_children = 1;
};
// REQUIRES: max_children >= 1.
SpareServerLimits spare_server_limits(const PoolSettings& pool, std::size_t max_children);

// How many workers a generation begins with, when the one before it had so many (0: it is the
// first). A reload under load does not begin small. ondemand begins with one: it shows that a
// worker with these settings can serve, which is what READY says and what a reload waits for, and
// ends when it was idle for long enough.
std::size_t initial_worker_count(const SpareServerLimits& limits, std::size_t previous_workers);

struct WorkerCounts {
  std::size_t target = 0;  // workers there should be, these two included
  std::size_t idle = 0;
  std::size_t starting = 0;  // of the wanted, those that do not serve yet
};

struct PoolAdjustment {
  std::size_t forks = 0;
  bool retire_one = false;  // the one that has been idle longest
  bool reached_limit = false;   // more are needed than pm.max_children; said once until there is room again
};

class SpareServerPolicy {
 public:
  // dynamic, once a second. Forks as many as are missing but at most 1, 2, 4 … 32, doubling from
  // one look to the next; retires one a look. Workers that start count as idle ones: they will be.
  PoolAdjustment adjust_dynamic(const SpareServerLimits& limits, const WorkerCounts& counts);
  // ondemand, when a connection waits to be accepted. One at a time: the worker that starts takes
  // all that waits.
  PoolAdjustment on_pending_connection(const SpareServerLimits& limits, const WorkerCounts& counts);

 private:
  bool reaches_limit(bool needed, bool full);
  std::size_t spawn_rate_ = 1;
  bool at_limit_ = false;
};

}  // namespace freshet
