#include "fcgi/process/announcer.h"

#include "fcgi/process/notify.h"

namespace freshet {

using namespace std::chrono_literals;

Announcer::Announcer(bool silent) : silent_(silent), watchdog_(notify::watchdog_interval()) {}

bool Announcer::pass_to(pid_t successor, SteadyTime now) {
  silent_ = notify::main_pid(successor);
  if (!silent_) again_ = now + 100ms;
  return silent_;
}

void Announcer::reloading() {
  said_ready_ = false;
  owes_reloading_ = !silent_ && !notify::reloading();
}

void Announcer::stopping() {
  if (!silent_) notify::stopping();
}

void Announcer::state(const std::string& text, bool ready, SteadyTime now) {
  const bool say_ready = ready && !said_ready_;
  again_ = SteadyTime::max();
  if (silent_ || (!say_ready && text == said_ && !owes_reloading_)) return;
  owes_reloading_ = owes_reloading_ && !notify::reloading();
  if (owes_reloading_ || !(say_ready ? notify::ready(text) : notify::status(text))) {
    again_ = now + 100ms;
    return;
  }
  said_ready_ = said_ready_ || say_ready;
  said_ = text;
}

void Announcer::feed_watchdog(SteadyTime now) {
  if (silent_ || !watchdog_ || now < watchdog_due_) return;
  notify::watchdog();
  watchdog_due_ = now + *watchdog_;
}

SteadyTime Announcer::next_deadline(bool stopping) const {
  if (silent_) return SteadyTime::max();
  const SteadyTime fed = watchdog_ ? watchdog_due_ : SteadyTime::max();
  return stopping ? fed : std::min(fed, again_);
}

}  // namespace freshet
