// The recorder's process, put together: its signals and core/recorder, which does the work.
#pragma once

#include "core/base/recorder_report.h"
#include "core/config/settings.h"
#include "fcgi/startup_files.h"

namespace freshet {

// Runs in the child until TERM, INT or QUIT comes, which end it after the entries in hand; USR1
// reopens the log. Returns the exit status.
int run_recorder(const Settings& settings, const StartupFiles& files, RecorderReport& report);

}  // namespace freshet
