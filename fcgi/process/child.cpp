#include "fcgi/process/child.h"

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>

#include "core/base/log.h"
#include "fcgi/process/notify.h"
#include "fcgi/process/signals.h"

namespace freshet {
namespace {

tl::unexpected<Error> cannot(const char* what) {
  return fail(ErrorCode::kInternal, "child_setup", {}, std::string(what) + ": " + std::strerror(errno));
}

Result<void> set_limits(const PoolSettings& pool) {
  if (pool.rlimit_files == 0) return {};
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = static_cast<rlim_t>(pool.rlimit_files);
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < limit.rlim_cur) limit.rlim_max = limit.rlim_cur;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return cannot("rlimit_files");
  return {};
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
  if (initgroups(pool.user.c_str(), gid) != 0) return cannot("initgroups");
  if (setgid(gid) != 0) return cannot("setgid");
  if (setuid(uid) != 0) return cannot("setuid");
  if (uid != 0 && setuid(0) == 0)
    return fail(ErrorCode::kInternal, "child_setup", "user", "root could be taken back");
  return {};
}

Result<void> follow_master(pid_t master) {
  // After setuid(): the kernel forgets the request when credentials change.
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) return cannot("PR_SET_PDEATHSIG");
  if (getppid() != master) return fail(ErrorCode::kInternal, "child_setup", {}, "the master is gone");
  return {};
}

Result<void> set_up(const Settings& settings, const ChildSetup& setup) {
  const PoolSettings& pool = settings.pool;
  for (const int fd : setup.inherited) close(fd);
  notify::forget();
  log::open(settings.error_log, settings.log_level);
  prctl(PR_SET_NAME, setup.name);
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (auto ok = set_limits(pool); !ok) return ok;
  if (auto ok = drop_privileges(pool); !ok) return ok;
  return follow_master(setup.master);
}

int run(const std::function<int()>& body, const char* name) {
  try {
    return body();
  } catch (const std::exception& error) {
    log::error("child_failed", {{"process", name}, {"what", error.what()}});
  } catch (...) {
    log::error("child_failed", {{"process", name}});
  }
  return kExitSoftware;
}

}  // namespace

std::string end_text(int status) {
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return "exit " + std::to_string(WEXITSTATUS(status));
}

Result<void> check_user(const PoolSettings& pool, bool allow_root) {
  if (geteuid() != 0 || allow_root) return {};
  const passwd* user = pool.user.empty() ? nullptr : getpwnam(pool.user.c_str());
  if (user && user->pw_uid != 0) return {};
  return fail(ErrorCode::kInvalid, "root_refused", "user",
              "workers would run as root: set the directive user, or allow it with -R");
}

void run_child(const Settings& settings, const ChildSetup& setup, const std::function<int()>& body) {
  reset_signals_in_child();
  if (const auto ok = set_up(settings, setup); !ok) {
    log::error("child_setup_failed", {{"process", setup.name}, {"detail", ok.error().detail}});
    _exit(kExitSoftware);
  }
  _exit(run(body, setup.name));
}

void run_child(WorkerContext& context, const WorkerMain& worker, const ChildSetup& setup) {
  run_child(context.settings, setup, [&] {
    context.board.slots()[context.slot].pid.store(getpid(), std::memory_order_relaxed);
    return worker(context);
  });
}

}  // namespace freshet
