// The master process: listens, forks, supervises, reloads. Opens no Redis, SQLite or index handle,
// has one thread and no event library.
//
// Signals: TERM and INT stop at once (workers finish the requests in flight), QUIT lets them drain,
// HUP reloads, USR2 reloads with the binary that stands at this one's path now, USR1 reopens the
// logs. A reload reads the configuration and what belongs to it first; then a second generation of
// workers starts beside the first one, and only when all of it is ready is the first one asked to
// drain. Whatever goes wrong before that moment leaves the first one serving, and whoever is forked
// for it as it was.
//
// When the binary at the path is another file than the running one, USR2 starts it with a master of
// its own beside this one (upgrade.h): the new master's workers are the second generation. When
// they are ready it becomes the service's main process, and this one lets its workers drain and
// ends. Until that moment a stop ends both; after it the new master passes a stop on and waits for
// what is left of the old one. Whatever is asked meanwhile (HUP, USR2) is carried out afterwards by
// whoever serves then. Counters begin anew.
//
// When the master dies, the kernel sends TERM to each worker: it finishes the requests in flight
// and ends. With the socket held by a socket unit, connections wait in its queue until the next
// master is there.
//
// The recorder, the status companion and the keeper of the model live beside the workers
// (companion.h) and are replaced when a reload has succeeded. At a stop recorder and keeper are
// told to end after the workers were, the status companion when they have ended. A new binary's
// recorder starts when the old one's has ended, its keeper at once.
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
  bool allow_root = false;                   // -R
  milliseconds ready_timeout{30000};         // a reload whose workers are not all ready by then is given up
  StatusMain status_main;                         // none: pm.status_listen is not opened
  std::function<void()> on_started = [] {};  // once: the socket listens and the first workers are forked
  Program program;                           // with an empty path USR2 is as HUP
  std::string handover_state;                         // for the master of a new binary; at most 4 KiB
  int limits_fd = -1;                        // the same: the file of the table of limits; −1: none
  // A reload has succeeded: the generation that serves has these.
  std::function<void(const Settings&)> on_reloaded = [](const Settings&) {};
};

// How many slots the board should have for these settings: room for several generations that drain
// at the same time, and for growth at a reload. A reload for which the board is too small is
// refused.
std::size_t scoreboard_slot_count(const Settings& settings);

// Runs until told to stop or another binary has taken over, and returns the exit status: 0,
// kExitConfig when it could not start, or kExitSoftware when it was to take over and could not.
// `handover`: what the master before it gave, if there was one. Changes signal masks and
// dispositions of this process. REQUIRES: one thread, no other children.
int run_master(GenerationSpec first, Scoreboard& board, const LoadFunction& load, const MasterOptions& options = {},
               std::optional<Handover> handover = std::nullopt);

}  // namespace freshet
