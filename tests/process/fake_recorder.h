// A recorder without Redis, SQLite or index, for tests of the master. It logs its events to a file:
// "start PID", "knows-SECRET PID", "ready PID", "end PID", "reopen PID", "second PID" (another
// recorder is running) and descriptors it should not have: "listens PID", "signalfd PID". The
// setting recorder.database selects its behavior:
//   die          exits with status 3 at once
//   slow         takes 300 ms to end
//   stubborn     ignores TERM
//   other        runs until TERM
#pragma once

#include <string>

#include "core/config/settings.h"

namespace freshet::testing {

int fake_recorder(const Settings& settings, const std::string& secret, const std::string& events);

}  // namespace freshet::testing
