// Sends the master's state to systemd: each change once, retried every 100 ms if it could not be
// delivered. Muted while another process is the service's main one, because systemd listens to that
// process only (NotifyAccess=main).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "core/base/time.h"
#include "fcgi/process/respawn.h"

namespace freshet {

class SystemdNotifier {
 public:
  explicit SystemdNotifier(bool muted);
  void unmute() { muted_ = false; }
  // Makes `successor` the main process and mutes this notifier. Returns false if systemd could not
  // be told; retry at next_deadline().
  bool announce_successor(pid_t successor, SteadyTime now);

  void announce_reloading();  // READY=1 must follow, whether or not the reload succeeds
  void announce_stopping();
  // Sends STATUS= if it changed, together with READY=1 if that is still to be sent and `ready` is
  // true.
  void announce_status(const std::string& text, bool ready, SteadyTime now);
  void request_ready() { sent_ready_ = false; }
  void ping_watchdog(SteadyTime now);

  SteadyTime next_deadline(bool stopping) const;

 private:
  bool muted_;
  bool sent_ready_ = false;
  bool reloading_unsent_ = false;
  std::string sent_status_;
  SteadyTime retry_at_ = SteadyTime::max();  // max(): nothing to retry
  const std::optional<milliseconds> watchdog_interval_;
  SteadyTime next_ping_at_{};
};

}  // namespace freshet
