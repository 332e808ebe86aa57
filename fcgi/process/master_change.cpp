// How a master becomes another: with other settings, or as the master of another binary.
#include <signal.h>

#include "core/base/log.h"
#include "fcgi/process/child.h"
#include "fcgi/process/master_loop.h"

namespace freshet {

void Master::request(int signal) {
  // Whoever sent it may not have heard yet who the main process is.
  if (upgrade_.went() && !upgrade_.over()) kill(upgrade_.successor(), signal);
  if (stopping_) return;
  if (pending_ != SIGUSR2) pending_ = signal;  // which is the more
}

void Master::run_pending(SteadyTime now) {
  if (pending_ == 0 || reload_.under_way() || upgrade_.under_way()) return;
  if (pending_ != SIGUSR2 || !upgrade_.offered()) {
    if (!reload_.begin(now)) return;
    pending_ = 0;
    announcer_.reloading();
    return;
  }
  // Two that drain beside one that serves would be more than anybody reckons with.
  if (!old_master_.over() || !old_master_.recorder_ended()) return;
  pending_ = 0;
  announcer_.reloading();
  const Generation& current = reload_.current();
  upgrade_.begin({current.number, current.wanted(), &listeners_, lease_.get(), options_.limits_fd},
                 now + options_.ready_timeout, current.settings.pool.process_control_timeout);
}

void Master::take_outcomes(SteadyTime now) {
  if (const auto before = reload_.take_replaced()) finish_reload(*before, now);
  if (reload_.failed()) give_up(reload_.take_failure());
  if (upgrade_.failed()) give_up(upgrade_.take_failure());
  if (upgrade_.ready()) hand_over(now);
}

void Master::finish_reload(const Generation& old, SteadyTime now) {
  const Settings& before = old.settings;
  const Generation& current = reload_.current();
  const Settings& settings = current.settings;
  if (settings.error_log != before.error_log || settings.log_level != before.log_level)
    log::open(settings.error_log, settings.log_level);
  if (const auto ok = set_priority(settings.pool); !ok)
    log::warning("priority_unchanged", {{"detail", ok.error().detail}});
  if (settings.pool.listen_backlog != before.pool.listen_backlog) {
    listeners_.requests.set_backlog(settings.pool.listen_backlog);
    if (listeners_.status) listeners_.status->set_backlog(settings.pool.listen_backlog);
  }
  options_.on_reloaded(settings);
  board_.pool().generation = current.number;
  board_.pool().reloads.fetch_add(1);
  board_.pool().reloaded_at = wall_now().time_since_epoch().count();
  pool_.ask_to_end(old.number, SIGQUIT, now);
  want_recorder(now);
  status_.want(&settings, now);
  want_keeper(now);
  failure_.clear();
  announcer_.owe_ready();
  log::notice("reload_done", {{"generation", std::to_string(current.number)}});
}

void Master::give_up(const std::string& why) {
  board_.pool().failed_reloads.fetch_add(1);
  failure_ = why;
  for_successor_.clear();
  announcer_.owe_ready();
  log::error("reload_failed", {{"detail", why}, {"serving", std::to_string(reload_.current().number)}});
}

void Master::announce(SteadyTime now) {
  const Generation& current = reload_.current();
  std::string text = "generation " + std::to_string(current.number) + ": " +
                     std::to_string(pool_.ready_count(current.number)) + " of " +
                     std::to_string(current.wanted()) + " workers ready";
  if (!failure_.empty()) text += "; last reload failed: " + failure_;
  const bool changing = reload_.under_way() || upgrade_.pending();
  announcer_.state(text, !changing && pool_.all_ready(current), now);
}

// --- As the old master

void Master::hand_over(SteadyTime now) {
  // From here on it cannot be taken back: systemd listens to the new one only.
  if (!announcer_.pass_to(upgrade_.successor(), now)) return;
  log::notice("upgrade_done", {{"successor", std::to_string(upgrade_.successor())}});
  if (pid_file_) pid_file_->leave();
  listeners_.requests.disown_file();
  if (listeners_.status) listeners_.status->disown_file();
  upgrade_.go();
  if (pending_ != 0) for_successor_.push_back(pending_);
  for (const int signal : for_successor_) kill(upgrade_.successor(), signal);
  begin_end(SIGQUIT, now);
  status_.want(nullptr, now);
  held_.reset();  // the recorder holds it until it has ended
}

void Master::hear_successor(SteadyTime now) {
  const int signal = upgrade_.hear();
  if (signal == SIGUSR1) reopen_logs();
  if (signal == SIGTERM || signal == SIGQUIT) stop(signal, now);
  if (!upgrade_.went() || !upgrade_.over()) return;
  log::error("successor_ended", {{"pid", std::to_string(upgrade_.successor())}});
  stop(SIGTERM, now);
}

// --- As the new one

void Master::prepare_to_take_over() {
  if (pool_.all_ready(reload_.current())) old_master_.say_ready();
}

void Master::hear_old_master(SteadyTime now) {
  const bool served = old_master_.serves();
  old_master_.hear();
  if (served && !old_master_.serves() && !stopping_) take_over(now);
  if (old_master_.serves() && old_master_.over() && !stopping_)
    fail_to_take_over("the old master has ended", now);
}

void Master::take_over(SteadyTime now) {
  const Settings& settings = reload_.current().settings;
  auto pid_file = PidFile::write(settings.pid);
  if (pid_file)
    pid_file_.emplace(std::move(*pid_file));
  else
    log::error("pid_file", {{"detail", pid_file.error().detail}});
  listeners_.requests.own_file(settings.pool.listen);
  if (listeners_.status) listeners_.status->own_file(settings.pool.status_listen);
  announcer_.speak();
  want_recorder(now);
  status_.want(&settings, now);
  log::notice("took_over", {{"generation", std::to_string(reload_.current().number)}});
}

void Master::fail_to_take_over(const char* why, SteadyTime now) {
  log::error("cannot_take_over", {{"detail", why}});
  exit_status_ = kExitSoftware;
  stop(SIGTERM, now);
}

}  // namespace freshet
