// A recorder without Redis, SQLite or index, for tests of the master. Its diary, a file, gets a
// line for each thing that happens to it: "start PID", "knows-SECRET PID", "end PID", "reopen PID",
// "second PID" (another one lives), and what it should not have: "listens PID", "signalfd PID". How
// it behaves is said by recorder.database:
//   anything     runs until TERM
//   die          ends with status 3 at once
//   slow         takes a while to end
//   stubborn     ignores TERM
#pragma once

#include <string>

#include "core/config/settings.h"

namespace freshet::testing {

int fake_recorder(const Settings& settings, const std::string& secret, const std::string& events);

}  // namespace freshet::testing
