// The process that serves /status, /metrics, /ping and /health even when the workers are busy,
// stopped or dead, and records five minutes of history. It uses the scoreboard only: no Redis,
// index or model.
#pragma once

#include "core/config/settings.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

// Serves until TERM, INT or QUIT; USR1 reopens the log. Returns the exit status.
int run_status_process(const Settings& settings, Scoreboard& board, int listen_fd);

}  // namespace freshet
