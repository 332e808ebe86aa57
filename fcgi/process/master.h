// The master process: listens, forks, supervises, reloads. Opens no Redis, SQLite or index handle, has one
// thread and no event library.
//
// Signals: TERM and INT stop at once (workers finish the requests in flight), QUIT lets them drain, HUP and
// USR2 reload, USR1 reopens the logs. A reload reads the configuration first; then a second generation of
// workers starts beside the first one, and only when all of it is ready is the first one asked to drain.
// Whatever goes wrong before that moment leaves the first one serving.
//
// When the master dies, the kernel sends TERM to each worker: it finishes the requests in flight and ends.
// With the socket held by a socket unit, connections wait in its queue until the next master is there.
//
// The recorder and the status companion live beside the workers (companion.h) and are replaced when a reload
// has succeeded. At a stop the recorder is told to end after the workers were, the status companion when they
// have ended.
#pragma once

#include <functional>

#include "core/base/config.h"
#include "fcgi/process/companion.h"
#include "fcgi/process/scoreboard.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

// Reads the configuration again; called for each reload, in the master.
using LoadFunction = std::function<Result<Loaded>()>;

struct MasterOptions {
  bool allow_root = false;                   // -R
  milliseconds ready_timeout{30000};         // a reload whose workers are not all ready by then is given up
  CompanionMain recorder;                    // none: this deployment has no recorder here
  StatusMain status;                         // none: pm.status_listen is not opened
  std::function<void()> on_started = [] {};  // once: the socket listens and the first workers are forked
};

// How many slots the board should have for these settings: room for several generations that drain at the
// same time, and for growth at a reload. A reload for which the board is too small is refused.
std::size_t scoreboard_slots(const Settings& settings);

// Runs until told to stop and returns the exit status: 0, or kExitConfig when it could not start. Changes
// signal masks and dispositions of this process. REQUIRES: one thread, no other children.
int run_master(Settings settings, Scoreboard& board, const LoadFunction& load, const WorkerMain& worker,
               const MasterOptions& options = {});

}  // namespace freshet
