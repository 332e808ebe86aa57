#include "fcgi/process/helper_process.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/base/log.h"
#include "core/base/time.h"
#include "fcgi/process/child.h"

namespace freshet {
namespace {

using namespace std::chrono_literals;

}  // namespace

HelperProcess::HelperProcess(HelperSlot& slot, HelperRole role)
    : slot_(slot), role_(std::move(role)), master_pid_(getpid()) {}

void HelperProcess::set_desired(const Settings* settings, SteadyTime now) {
  desired_settings_ = role_.main ? settings : nullptr;
  slot_.enabled.store(desired_settings_ != nullptr, kRelaxed);
  failed_starts_ = 0;
  next_start_at_ = now;
  if (pid_ == 0 || stop_requested_) return;
  stop_requested_ = true;
  kill_at_ = now + stop_timeout_;
  kill(pid_, SIGTERM);
}

void HelperProcess::tick(SteadyTime now) {
  if (pid_ != 0 && now >= kill_at_) {
    log::warning("helper_killed", {{"process", role_.name}, {"pid", std::to_string(pid_)}});
    kill(pid_, SIGKILL);
    kill_at_ = SteadyTime::max();
  }
  if (needs_start() && now >= next_start_at_) start(now);
}

void HelperProcess::start(SteadyTime now) {
  ChildSetup setup{
      .master_pid = master_pid_, .fds_to_close = role_.fds_to_close(), .process_name = role_.name};
  progress_at_start_ = role_.progress ? role_.progress() : 0;
  started_at_ = now;
  const pid_t pid = fork();
  if (pid == 0) run_child(*desired_settings_, setup, [this] { return role_.main(*desired_settings_); });
  if (pid < 0) {
    log::error("fork_failed", {{"process", role_.name}, {"detail", std::strerror(errno)}});
    next_start_at_ = now + 1s;
    return;
  }
  pid_ = pid;
  stop_requested_ = false;
  stop_timeout_ = desired_settings_->pool.process_control_timeout;
  slot_.started_at.store(wall_now().time_since_epoch().count(), kRelaxed);
  slot_.pid.store(pid, kRelaxed);
  log::notice("helper_started", {{"process", role_.name}, {"pid", std::to_string(pid)}});
}

bool HelperProcess::made_progress(SteadyTime now) const {
  return role_.progress ? role_.progress() > progress_at_start_ : now >= started_at_ + kStableAfter;
}

bool HelperProcess::reap(pid_t pid, int status, SteadyTime now) {
  if (pid_ == 0 || pid != pid_) return false;
  log::write(stop_requested_ ? log::Level::kNotice : log::Level::kWarning, "helper_exited",
             {{"process", role_.name}, {"pid", std::to_string(pid)}, {"status", exit_text(status)}});
  if (!stop_requested_) {
    slot_.respawns.fetch_add(1, kRelaxed);
    failed_starts_ = made_progress(now) ? 0 : failed_starts_ + 1;
    next_start_at_ = failed_starts_ == 0 ? now : now + respawn_delay(failed_starts_);
  }
  pid_ = 0;
  kill_at_ = SteadyTime::max();
  slot_.pid.store(0, kRelaxed);
  return true;
}

void HelperProcess::reopen_log() const {
  if (pid_ != 0) kill(pid_, SIGUSR1);
}

SteadyTime HelperProcess::next_deadline() const { return needs_start() ? next_start_at_ : kill_at_; }

}  // namespace freshet
