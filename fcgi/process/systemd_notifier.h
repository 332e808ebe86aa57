// What the master wants systemd to know, said when it is new and again when it could not be
// delivered. Silent while another process is the service's main one: systemd listens to that alone
// (NotifyAccess=main).
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
  // Makes that process the main one and is silent from then on. False: systemd could not be told;
  // try again at next_deadline().
  bool announce_successor(pid_t successor, SteadyTime now);

  void announce_reloading();  // READY follows when all is well again
  void announce_stopping();
  // STATUS= if it is new; with READY=1 if that is owed and `ready`.
  void announce_status(const std::string& text, bool ready, SteadyTime now);
  void request_ready() { sent_ready_ = false; }
  void ping_watchdog(SteadyTime now);

  SteadyTime next_deadline(bool stopping) const;

 private:
  bool muted_;
  bool sent_ready_ = false;
  bool reloading_unsent_ = false;
  std::string sent_status_;
  SteadyTime retry_at_ = SteadyTime::max();  // when systemd could not be told
  const std::optional<milliseconds> watchdog_interval_;
  SteadyTime next_ping_at_{};
};

}  // namespace freshet
