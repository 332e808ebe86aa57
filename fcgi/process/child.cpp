#include "fcgi/process/child.h"

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "core/base/log.h"
#include "fcgi/process/notify.h"
#include "fcgi/process/signals.h"

namespace freshet {
namespace {

tl::unexpected<Error> errno_error(const char* action) {
  return fail(ErrorCode::kInternal, "child_setup", {}, std::string(action) + ": " + std::strerror(errno));
}

Result<void> set_limit(int resource, rlim_t value, const char* directive) {
  rlimit limit{};
  getrlimit(static_cast<__rlimit_resource_t>(resource), &limit);
  if (limit.rlim_cur == value) return {};
  limit.rlim_cur = value;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < value) limit.rlim_max = value;
  if (setrlimit(static_cast<__rlimit_resource_t>(resource), &limit) != 0) return errno_error(directive);
  return {};
}

Result<void> set_limits(const PoolSettings& pool) {
  if (pool.rlimit_files > 0) {
    auto ok = set_limit(RLIMIT_NOFILE, static_cast<rlim_t>(pool.rlimit_files), "rlimit_files");
    if (!ok) return ok;
  }
  if (pool.rlimit_core < 0) return {};
  return set_limit(RLIMIT_CORE, static_cast<rlim_t>(pool.rlimit_core), "rlimit_core");
}

Result<void> check_limit(int which, std::int64_t value, const std::string& directive,
                         const char* unit_directive) {
  if (value <= 0) return {};  // inherited, or lowered
  const auto resource = static_cast<__rlimit_resource_t>(which);
  rlimit limit{};
  getrlimit(resource, &limit);
  const auto wanted = static_cast<rlim_t>(value);
  if (limit.rlim_max == RLIM_INFINITY || wanted <= limit.rlim_max) return {};
  const rlimit raised{limit.rlim_cur, wanted};
  if (setrlimit(resource, &raised) == 0) {
    setrlimit(resource, &limit);
    return {};
  }
  return fail(ErrorCode::kInvalid, "bad_limit", directive,
              directive + ": " + std::to_string(value) + " exceeds this process's limit, " +
                  std::to_string(limit.rlim_max) + ": raise that limit (systemd: " + unit_directive + "=)");
}

// Resolves all values before setting the first variable, so that "$NAME" is always the master's
// value.
void set_environment(const PoolSettings& pool) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const auto& [name, value] : pool.env) {
    const char* const resolved = value.starts_with('$') ? std::getenv(value.c_str() + 1) : value.c_str();
    variables.emplace_back(name, resolved ? resolved : "");
  }
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  tzset();  // libc caches the time zone on first use, which was in the master
}

Result<void> open_log(const Settings& settings) {
  try {
    log::open(settings.error_log, settings.log_level);
    log::redirect(settings.pool.catch_workers_output ? log::OutputMode::kToLog : log::OutputMode::kDiscard);
  } catch (const std::exception& error) {
    return fail(ErrorCode::kInternal, "child_setup", "error_log", error.what());
  }
  return {};
}

tl::unexpected<Error> bad_chdir(const std::string& folder) {
  const auto code = errno == EACCES ? ErrorCode::kForbidden : ErrorCode::kInvalid;
  return fail(code, "bad_chdir", "chdir", "chdir: cannot enter " + folder + ": " + std::strerror(errno));
}

Result<void> drop_privileges(const PoolSettings& pool) {
  if (geteuid() != 0 || pool.user.empty()) return {};
  const passwd* user = getpwnam(pool.user.c_str());
  if (!user) return fail(ErrorCode::kInternal, "child_setup", "user", "unknown user " + pool.user);
  const uid_t uid = user->pw_uid;
  gid_t gid = user->pw_gid;
  if (!pool.group.empty()) {
    const auto* entry = getgrnam(pool.group.c_str());
    if (!entry) return fail(ErrorCode::kInternal, "child_setup", "group", "unknown group " + pool.group);
    gid = entry->gr_gid;
  }
  if (initgroups(pool.user.c_str(), gid) != 0) return errno_error("initgroups");
  if (setgid(gid) != 0) return errno_error("setgid");
  if (setuid(uid) != 0) return errno_error("setuid");
  if (uid != 0 && setuid(0) == 0)
    return fail(ErrorCode::kInternal, "child_setup", "user", "root privileges could be regained");
  return {};
}

Result<void> set_parent_death_signal(pid_t master_pid) {
  // Must follow setuid(): the kernel clears the request when credentials change.
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) return errno_error("PR_SET_PDEATHSIG");
  if (getppid() != master_pid) return fail(ErrorCode::kInternal, "child_setup", {}, "the master has died");
  return {};
}

Result<void> set_up(const Settings& settings, const ChildSetup& setup) {
  const PoolSettings& pool = settings.pool;
  for (const int fd : setup.fds_to_close) close(fd);
  notify::clear_environment();
  set_environment(pool);
  if (auto ok = open_log(settings); !ok) return ok;
  prctl(PR_SET_NAME, setup.process_name);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (auto ok = set_limits(pool); !ok) return ok;
  if (auto ok = set_priority(pool); !ok) return ok;
  if (!pool.chdir.empty() && chdir(pool.chdir.c_str()) != 0) return bad_chdir(pool.chdir);
  if (auto ok = drop_privileges(pool); !ok) return ok;
  // The kernel writes no core file for a process that changed its user unless it is marked
  // dumpable.
  if (pool.rlimit_core > 0) prctl(PR_SET_DUMPABLE, 1);
  return set_parent_death_signal(setup.master_pid);
}

constexpr const char* kMoreMemory =
    "raise the limits of memory and processes, or lower pm.max_children, items.cache and limits.table";

int run(const std::function<int()>& body, const char* name) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    log::error("child_failed", {{"process", name}, {"error", "out of memory"}, {"fix", kMoreMemory}});
  } catch (const std::exception& error) {
    const auto* const system = dynamic_cast<const std::system_error*>(&error);
    const bool needs_thread = system && system->code() == std::errc::resource_unavailable_try_again;
    if (needs_thread)
      log::error("child_failed",
                 {{"process", name}, {"error", "a thread could not be started"}, {"fix", kMoreMemory}});
    else
      log::error("child_failed", {{"process", name}, {"error", error.what()}});
  } catch (...) {
    log::error("child_failed", {{"process", name}});
  }
  return kExitSoftware;
}

}  // namespace

Result<void> set_priority(const PoolSettings& pool) {
  if (pool.process_priority == 0 || getpriority(PRIO_PROCESS, 0) == pool.process_priority) return {};
  if (setpriority(PRIO_PROCESS, 0, pool.process_priority) != 0) return errno_error("process.priority");
  return {};
}

Result<void> check_limits(const PoolSettings& pool) {
  FRESHET_TRY(files, check_limit(RLIMIT_NOFILE, pool.rlimit_files, "rlimit_files", "LimitNOFILE"));
  return check_limit(RLIMIT_CORE, pool.rlimit_core, "rlimit_core", "LimitCORE");
}

Result<void> check_chdir(const PoolSettings& pool) {
  if (pool.chdir.empty() || access(pool.chdir.c_str(), X_OK) == 0) return {};
  return bad_chdir(pool.chdir);
}

std::string exit_text(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit " + std::to_string(WEXITSTATUS(status));
}

Result<void> check_user(const PoolSettings& pool, bool allow_root) {
  if (geteuid() != 0 || allow_root) return {};
  const passwd* user = pool.user.empty() ? nullptr : getpwnam(pool.user.c_str());
  if (user && user->pw_uid != 0) return {};
  return fail(ErrorCode::kInvalid, "root_refused", "user",
              "workers would run as root; set user to an unprivileged account, or allow root with -R");
}

void run_child(const Settings& settings, const ChildSetup& setup, const std::function<int()>& body) {
  reset_signals_in_child();
  if (const auto ok = set_up(settings, setup); !ok) {
    log::error("child_setup_failed", {{"process", setup.process_name}, {"detail", ok.error().detail}});
    _exit(ok.error().reason == "bad_chdir" ? kExitConfig : kExitSoftware);
  }
  _exit(run(body, setup.process_name));
}

void run_child(WorkerContext& context, const WorkerMain& worker, const ChildSetup& setup) {
  run_child(context.settings, setup, [&] {
    context.board.slots()[context.slot_index].pid.store(getpid(), std::memory_order_relaxed);
    return worker(context);
  });
}

}  // namespace freshet
