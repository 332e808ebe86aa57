// Set-up of a child of the master between fork() and its main function, and the check that workers
// do not run as root.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

// Error: kInvalid "root_refused" if the workers would run as root without allow_root (-R).
Result<void> check_user(const PoolSettings& pool, bool allow_root);

// Applies process.priority unless it is 0 or already in force. Error: kInternal "child_setup".
Result<void> set_priority(const PoolSettings& pool);

// Checks that rlimit_files and rlimit_core can be applied. Error: kInvalid "bad_limit".
Result<void> check_limits(const PoolSettings& pool);

// Checks that this process may enter `chdir`. Errors: kForbidden or kInvalid "bad_chdir".
Result<void> check_chdir(const PoolSettings& pool);

struct ChildSetup {
  pid_t master_pid = 0;
  std::vector<int> fds_to_close;                 // the master's descriptors
  const char* process_name = "freshetd-worker";  // at most 15 bytes
};

// Runs in the child and never returns. Resets signals, closes fds_to_close, sets the environment,
// opens the log, redirects stdout and stderr to it, sets limits and priority, changes directory,
// drops privileges, requests SIGTERM for when the master dies, and runs `body`. Leaves through
// _exit() with its result, so that no exit handler or destructor of the master runs in the child.
[[noreturn]] void run_child(const Settings& settings, const ChildSetup& setup,
                            const std::function<int()>& body);
// For a worker: also stores its pid in its slot.
[[noreturn]] void run_child(WorkerContext& context, const WorkerMain& worker, const ChildSetup& setup);

// "exit 3" or "signal 9". `status` is the one from waitpid().
std::string exit_text(int status);

// sysexits.h EX_SOFTWARE: the set-up failed, or the main function threw.
inline constexpr int kExitSoftware = 70;
// sysexits.h EX_CONFIG, as PHP-FPM: bad configuration, listen socket or `chdir`.
inline constexpr int kExitConfig = 78;

}  // namespace freshet
