// What happens in a worker between fork() and WorkerMain, and the question of who may run as root.
#pragma once

#include <sys/types.h>

#include <vector>

#include "core/base/result.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

// Ok unless the workers would run as root without allow_root (-R). Error: kInvalid "root_refused".
Result<void> check_user(const PoolSettings& pool, bool allow_root);

struct ChildSetup {
  pid_t master = 0;
  std::vector<int> inherited;  // descriptors of the master that a worker has no business with
};

// Runs in the child and never returns: resets signals, closes what is the master's, opens the log, sets
// limits, drops privileges, asks for TERM when the master dies, runs `worker`, and leaves by _exit() so that
// no handler or destructor of the master runs here.
[[noreturn]] void run_child(WorkerContext& context, const WorkerMain& worker, const ChildSetup& setup);

inline constexpr int kExitSoftware = 70;  // sysexits.h: the set-up failed or an exception left WorkerMain
inline constexpr int kExitConfig = 78;    // sysexits.h, as PHP-FPM: configuration or listen socket

}  // namespace freshet
