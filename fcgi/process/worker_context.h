// Context that the master passes to a new worker. The worker opens everything else (event loop,
// Redis) after the fork.
#pragma once

#include <cstddef>
#include <functional>

#include "core/config/settings.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

struct WorkerContext {
  const Settings& settings;
  Scoreboard& board;
  std::size_t slot_index;  // index in board.slots()
  int listen_fd;           // non-blocking, shared by all workers
  // Write end of a pipe. The worker sends 'R' once Redis has answered and it accepts requests.
  // Later, at most once, it sends 'X' to ask for its replacement (pm.max_requests, pm.max_rss) and
  // serves until QUIT, which comes when its replacement is ready.
  int ready_fd;
};

// Runs in the child and returns its exit status.
//
// The master writes state, pid, generation and started_at of the slot; the worker writes the rest.
// A ready worker must update last_iteration_ms well within request_terminate_timeout, even when
// idle (with a timer), or it is killed.
//
// Signals: QUIT drains (stops accepting, serves open connections until the peer closes them or
// process_control_timeout has passed), TERM and INT stop after the requests in flight, USR1 reopens
// the log.
using WorkerMain = std::function<int(WorkerContext&)>;

}  // namespace freshet
