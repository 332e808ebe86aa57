// Main function of the recorder process. core/recorder does the work.
#pragma once

#include "core/base/recorder_report.h"
#include "core/config/settings.h"
#include "fcgi/startup_files.h"

namespace freshet {

// Runs in the child until TERM, INT or QUIT, and ends after the entries in hand. USR1 reopens the
// log. Returns the exit status.
int run_recorder(const Settings& settings, const StartupFiles& files, RecorderReport& report);

}  // namespace freshet
