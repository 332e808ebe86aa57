// A status process without pages, for tests of the master. It answers each connection with the line
// "<pid> <pm.status_path>" and closes it. It logs the events "start", "end", "reopen", "listens"
// and "signalfd" like fake_recorder.h. The setting pm.status_path selects its behavior:
//   /die     exits with status 3 at once
//   other    answers until TERM
#pragma once

#include <string>

#include "core/config/settings.h"

namespace freshet::testing {

int fake_status(const Settings& settings, int listen_fd, const std::string& events);

}  // namespace freshet::testing
