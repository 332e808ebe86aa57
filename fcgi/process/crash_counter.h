// emergency_restart_threshold and emergency_restart_interval. Repeated crashes may have a cause
// that a new generation does not share, such as a damaged cache or a replaced file. Pure: `now` is
// a parameter.
#pragma once

#include <deque>

#include "core/base/time.h"
#include "fcgi/process/respawn.h"

namespace freshet {

// True if the process died of a signal that its own code caused: SEGV, BUS, ABRT, FPE, ILL, SYS,
// TRAP. SIGKILL does not count: the watchdog, the OOM killer and operators send it. `status` is the
// one from waitpid().
bool is_crash(int status);

class CrashCounter {
 public:
  // Returns true if this crash is the `threshold`-th within `interval`, and resets the count.
  // Threshold 0: never.
  bool record_crash(int threshold, seconds interval, SteadyTime now);

 private:
  std::deque<SteadyTime> crashes_;
};

}  // namespace freshet
