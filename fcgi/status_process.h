// The process beside the workers that answers /status, /metrics, /ping and /health while they are
// busy, stopped or dead, and remembers five minutes of the pool. It has the scoreboard and nothing
// else: no Redis, no index, no model.
#pragma once

#include "core/config/settings.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

// Serves until TERM or QUIT; USR1 reopens the log. Returns its exit status.
int run_status_process(const Settings& settings, Scoreboard& board, int listen_fd);

}  // namespace freshet
