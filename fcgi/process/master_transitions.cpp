// Transitions of the master: reload, and upgrade to another binary.
#include <signal.h>

#include <exception>

#include "core/base/log.h"
#include "fcgi/process/child.h"
#include "fcgi/process/master_loop.h"

namespace freshet {

namespace {

void reopen_log(const Settings& settings) {
  try {
    log::open(settings.error_log, settings.log_level);
  } catch (const std::exception& error) {
    // The previous log is still open.
    log::error("log_reopen_failed", {{"file", settings.error_log}, {"error", error.what()}});
  }
}

}  // namespace

void Master::queue_change(int signal) {
  // The sender may not know yet which process is the main one.
  if (upgrade_.is_committed() && !upgrade_.has_successor_ended()) kill(upgrade_.successor_pid(), signal);
  if (stopping_) return;
  if (pending_signal_ != SIGUSR2) pending_signal_ = signal;  // an upgrade includes a reload
}

void Master::start_pending_change(SteadyTime now) {
  if (pending_signal_ == 0 || reload_.is_in_progress() || upgrade_.is_in_progress()) return;
  if (pending_signal_ != SIGUSR2 || !upgrade_.binary_changed()) {
    if (!reload_.begin(now)) return;
    pending_signal_ = 0;
    notifier_.announce_reloading();
    return;
  }
  // Allow only one draining master.
  if (!old_master_.has_ended() || !old_master_.has_recorder_ended()) return;
  pending_signal_ = 0;
  notifier_.announce_reloading();
  const Generation& current = reload_.current();
  upgrade_.begin({current.number, current.open_count(), &listeners_, lease_reader_.get(), options_.limits_fd},
                 now + options_.ready_timeout, current.settings.pool.process_control_timeout);
}

void Master::handle_outcomes(SteadyTime now) {
  if (const auto replaced = reload_.take_replaced()) finish_reload(*replaced, now);
  if (reload_.has_failed()) report_failed_change(reload_.take_failure());
  if (upgrade_.has_failed()) report_failed_change(upgrade_.take_failure());
  if (upgrade_.is_ready()) hand_over(now);
}

void Master::finish_reload(const Generation& previous, SteadyTime now) {
  const Settings& previous_settings = previous.settings;
  const Generation& current = reload_.current();
  const Settings& settings = current.settings;
  if (settings.error_log != previous_settings.error_log || settings.log_level != previous_settings.log_level)
    reopen_log(settings);
  if (const auto ok = set_priority(settings.pool); !ok)
    log::warning("priority_change_failed", {{"detail", ok.error().detail}});
  if (settings.pool.listen_backlog != previous_settings.pool.listen_backlog) {
    listeners_.requests.set_backlog(settings.pool.listen_backlog);
    if (listeners_.status) listeners_.status->set_backlog(settings.pool.listen_backlog);
  }
  options_.on_reloaded(settings);
  board_.pool().generation = current.number;
  board_.pool().reloads.fetch_add(1);
  board_.pool().reloaded_at = wall_now().time_since_epoch().count();
  pool_.stop_workers(previous.number, SIGQUIT, now);
  update_recorder(now);
  status_process_.set_desired(&settings, now);
  update_model_publisher(now);
  last_failure_.clear();
  notifier_.request_ready();
  log::notice("reload_completed", {{"generation", std::to_string(current.number)}});
}

void Master::report_failed_change(const std::string& reason) {
  board_.pool().failed_reloads.fetch_add(1);
  last_failure_ = reason;
  signals_for_successor_.clear();
  notifier_.request_ready();
  log::error("reload_failed", {{"detail", reason}, {"serving", std::to_string(reload_.current().number)}});
}

void Master::announce_status(SteadyTime now) {
  const Generation& current = reload_.current();
  std::string text = "generation " + std::to_string(current.number) + ": " +
                     std::to_string(pool_.ready_count(current.number)) + " of " +
                     std::to_string(current.open_count()) + " workers ready";
  if (!last_failure_.empty()) text += "; last reload failed: " + last_failure_;
  const bool changing = reload_.is_in_progress() || upgrade_.is_pending();
  notifier_.announce_status(text, !changing && pool_.all_ready(current), now);
}

// --- In the old master

void Master::hand_over(SteadyTime now) {
  // Point of no return: from here on systemd listens to the new master only.
  if (!notifier_.announce_successor(upgrade_.successor_pid(), now)) return;
  log::notice("upgrade_completed", {{"successor", std::to_string(upgrade_.successor_pid())}});
  if (pid_file_) pid_file_->disown();
  listeners_.requests.release_file_ownership();
  if (listeners_.status) listeners_.status->release_file_ownership();
  upgrade_.commit();
  if (pending_signal_ != 0) signals_for_successor_.push_back(pending_signal_);
  for (const int signal : signals_for_successor_) kill(upgrade_.successor_pid(), signal);
  begin_shutdown(SIGQUIT, now);
  status_process_.set_desired(nullptr, now);
  lease_writer_.reset();  // the recorder holds its copy until it ends
}

void Master::read_successor(SteadyTime now) {
  const int signal = upgrade_.read_channel();
  if (signal == SIGUSR1) reopen_logs();
  if (signal == SIGTERM || signal == SIGQUIT) stop(signal, now);
  if (!upgrade_.is_committed() || !upgrade_.has_successor_ended()) return;
  log::error("successor_exited", {{"pid", std::to_string(upgrade_.successor_pid())}});
  stop(SIGTERM, now);
}

// --- In the new master

void Master::report_ready_to_old_master() {
  if (pool_.all_ready(reload_.current())) old_master_.report_ready();
}

void Master::read_old_master(SteadyTime now) {
  const bool was_serving = old_master_.is_serving();
  old_master_.read_channel();
  if (was_serving && !old_master_.is_serving() && !stopping_) take_over(now);
  if (old_master_.is_serving() && old_master_.has_ended() && !stopping_)
    abort_takeover("the old master has ended", now);
}

void Master::take_over(SteadyTime now) {
  const Settings& settings = reload_.current().settings;
  auto pid_file = PidFile::write(settings.pid);
  if (pid_file)
    pid_file_.emplace(std::move(*pid_file));
  else
    log::error("pid_file_write_failed", {{"detail", pid_file.error().detail}});
  listeners_.requests.take_file_ownership(settings.pool.listen);
  if (listeners_.status) listeners_.status->take_file_ownership(settings.pool.status_listen);
  notifier_.unmute();
  update_recorder(now);
  status_process_.set_desired(&settings, now);
  log::notice("takeover_completed", {{"generation", std::to_string(reload_.current().number)}});
}

void Master::abort_takeover(const char* reason, SteadyTime now) {
  log::error("takeover_failed", {{"detail", reason}});
  exit_status_ = kExitSoftware;
  stop(SIGTERM, now);
}

}  // namespace freshet
