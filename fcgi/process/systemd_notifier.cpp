#include "fcgi/process/systemd_notifier.h"

#include "fcgi/process/notify.h"

namespace freshet {

using namespace std::chrono_literals;

SystemdNotifier::SystemdNotifier(bool muted)
    : muted_(muted), watchdog_interval_(notify::watchdog_interval()) {}

bool SystemdNotifier::announce_successor(pid_t successor, SteadyTime now) {
  muted_ = notify::main_pid(successor);
  if (!muted_) retry_at_ = now + 100ms;
  return muted_;
}

void SystemdNotifier::announce_reloading() {
  sent_ready_ = false;
  reloading_unsent_ = !muted_ && !notify::reloading();
}

void SystemdNotifier::announce_stopping() {
  if (!muted_) notify::stopping();
}

void SystemdNotifier::announce_status(const std::string& text, bool ready, SteadyTime now) {
  const bool sending_ready = ready && !sent_ready_;
  retry_at_ = SteadyTime::max();
  if (muted_ || (!sending_ready && text == sent_status_ && !reloading_unsent_)) return;
  reloading_unsent_ = reloading_unsent_ && !notify::reloading();
  if (reloading_unsent_ || !(sending_ready ? notify::ready(text) : notify::status(text))) {
    retry_at_ = now + 100ms;
    return;
  }
  sent_ready_ = sent_ready_ || sending_ready;
  sent_status_ = text;
}

void SystemdNotifier::ping_watchdog(SteadyTime now) {
  if (muted_ || !watchdog_interval_ || now < next_ping_at_) return;
  notify::watchdog();
  next_ping_at_ = now + *watchdog_interval_;
}

SteadyTime SystemdNotifier::next_deadline(bool stopping) const {
  if (muted_) return SteadyTime::max();
  const SteadyTime ping_at = watchdog_interval_ ? next_ping_at_ : SteadyTime::max();
  return stopping ? ping_at : std::min(ping_at, retry_at_);
}

}  // namespace freshet
