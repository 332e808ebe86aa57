// A status companion without pages, for tests of the master. Each connection gets the line "<pid>
// <pm.status_path>" and is closed. Its diary is as fake_recorder.h says: "start", "end", "reopen",
// "signalfd". How it behaves is said by pm.status_path:
//   /die       ends with status 3 at once
//   anything   answers until TERM
#pragma once

#include <string>

#include "core/config/settings.h"

namespace freshet::testing {

int fake_status(const Settings& settings, int listen_fd, const std::string& events);

}  // namespace freshet::testing
