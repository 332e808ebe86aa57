// What the master hands to a freshly forked worker. The worker opens everything else (event loop,
// Redis) itself, after the fork.
#pragma once

#include <cstddef>
#include <functional>

#include "core/config/settings.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

struct WorkerContext {
  const Settings& settings;
  Scoreboard& board;
  std::size_t slot_index;  // index in board.slots(), this worker's own
  int listen_fd;     // non-blocking, shared by all workers
  // Write end of a pipe: one byte 'R' when Redis answered and the scripts are loaded. Later, once,
  // 'X' when this worker wants to be replaced (pm.max_requests): it serves on until QUIT comes,
  // which is when its replacement is ready.
  int ready_fd;
};

// The master writes the slot's state, pid, generation and started_at; everything else in it is the
// worker's, above all last_turn_ms: a READY worker renews it well within request_terminate_timeout,
// also when idle (a timer of a second), or it is killed.
//
// Runs in the child; returns its exit status. Signals there: QUIT drains (stops accepting, goes on
// serving kept connections until the peer closes them or process_control_timeout has passed), TERM
// and INT stop after the requests in flight, USR1 reopens the log.
using WorkerMain = std::function<int(WorkerContext&)>;

}  // namespace freshet
