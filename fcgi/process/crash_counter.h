// emergency_restart_threshold and emergency_restart_interval: workers that crash one after the
// other may share a cause that a new generation has not (a damaged cache, a file that was replaced
// meanwhile). Pure: `now` is a parameter.
#pragma once

#include <deque>

#include "core/base/time.h"
#include "fcgi/process/respawn.h"

namespace freshet {

// True iff a process with this status (as of waitpid) died by a signal that its own code brought
// upon it: SEGV, BUS, ABRT, FPE, ILL, SYS, TRAP. Not KILL, which the watchdog, the kernel's memory
// killer and operators send.
bool is_crash(int status);

class CrashCounter {
 public:
  // Notes a crash. True when it is the `threshold`-th within `interval`; then counting begins anew.
  // Threshold 0: never.
  bool record_crash(int threshold, seconds interval, SteadyTime now);

 private:
  std::deque<SteadyTime> crashes_;
};

}  // namespace freshet
