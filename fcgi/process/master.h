// The master process: listens, forks, supervises and reloads. Opens no Redis, SQLite or index
// handle and has one thread and no event library.
//
// Signals: TERM and INT stop at once (workers finish the requests in flight), QUIT lets the workers
// drain, HUP reloads, USR2 reloads with the binary that is now installed, USR1 reopens the logs. A
// reload first reads the configuration and its files. Then a second generation of workers starts
// next to the first one, which is drained only once all new workers are ready. An error before that
// leaves the first generation serving, and processes that are forked for it still get its settings.
//
// If the installed binary differs from the running one, USR2 starts it with its own master
// (upgrade.h). The new master's workers are the second generation. Once they are ready, the new
// master becomes the service's main process and the old one drains its workers and ends. A stop
// before that ends both. After it, the new master forwards a stop and waits for the old one. A HUP
// or USR2 that arrives during the upgrade is carried out afterwards, by the process that is then
// serving. Counters start at zero.
//
// When the master dies, the kernel sends TERM to each worker, which finishes the requests in flight
// and ends. With a socket unit, connections wait in the socket's queue for the next master.
//
// The recorder, the status process and the model publisher run next to the workers
// (helper_process.h) and are replaced after a successful reload. At a stop, the recorder and the
// publisher are asked to end after the workers have been asked, and the status process when the
// workers have ended. After an upgrade the new recorder starts when the old one has ended, the new
// publisher at once.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "fcgi/process/helper_process.h"
#include "fcgi/process/reload.h"
#include "fcgi/process/scoreboard.h"
#include "fcgi/process/upgrade.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

struct MasterOptions {
  bool allow_root = false;
  milliseconds ready_timeout{30000};  // a reload is aborted if its workers are not all ready by then
  StatusMain status_main;             // empty: pm.status_listen is not opened
  // Called once the sockets listen and the first workers are forked.
  std::function<void()> on_started = [] {};
  Program program;             // with an empty path, USR2 acts like HUP
  std::string handover_state;  // passed to the master of a new binary; at most 4 KiB
  int limits_fd = -1;          // descriptor of the rate limit table, passed on as well; −1: none
  // Called every few seconds; true: reload.
  std::function<bool()> needs_reload = [] { return false; };
  // Called after a successful reload with the settings now served.
  std::function<void(const Settings&)> on_reloaded = [](const Settings&) {};
};

// Number of scoreboard slots for these settings: enough for several generations that drain at the
// same time, and for growth at a reload. A reload that needs more is refused.
std::size_t scoreboard_slot_count(const Settings& settings);

// Runs until told to stop or until another binary has taken over. Returns the exit status: 0,
// kExitConfig if it could not start, kExitSoftware if it could not take over. `handover` comes from
// the previous master, if there was one. Changes signal masks and dispositions. REQUIRES: one
// thread, no other children.
int run_master(GenerationSpec first, Scoreboard& board, const LoadFunction& load,
               const MasterOptions& options = {}, std::optional<Handover> handover = std::nullopt);

}  // namespace freshet
