// What happens in a child of the master between fork() and its own work, and the question of who
// may run as root.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

// Ok unless the workers would run as root without allow_root (-R). Error: kInvalid "root_refused".
Result<void> check_user(const PoolSettings& pool, bool allow_root);

// process.priority, unless it is 0 or in force already. Error: kInternal "child_setup".
Result<void> set_priority(const PoolSettings& pool);

struct ChildSetup {
  pid_t master_pid = 0;
  std::vector<int> fds_to_close;            // descriptors of the master that the child has no business with
  const char* process_name = "freshetd-worker";  // of the process; at most 15 bytes
};

// Runs in the child and never returns: resets signals, closes what is the master's, sets the
// environment, opens the log, leads stdout and stderr there, sets limits and priority, goes to its
// folder, drops privileges, asks for TERM when the master dies, runs `body`, and leaves by _exit()
// with its result so that no handler or destructor of the master runs here.
[[noreturn]] void run_child(const Settings& settings, const ChildSetup& setup,
                            const std::function<int()>& body);
// The same for a worker, which finds its pid in its slot.
[[noreturn]] void run_child(WorkerContext& context, const WorkerMain& worker, const ChildSetup& setup);

// "exit 3" or "signal 9", of a status as of waitpid.
std::string exit_text(int status);

inline constexpr int kExitSoftware =
    70;                                 // sysexits.h: the set-up failed or an exception left the child's main
inline constexpr int kExitConfig = 78;  // sysexits.h, as PHP-FPM: configuration or listen socket

}  // namespace freshet
