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

class Announcer {
 public:
  explicit Announcer(bool silent);
  void speak() { silent_ = false; }
  // Makes that process the main one and is silent from then on. False: systemd could not be told;
  // try again at next_deadline().
  bool pass_to(pid_t successor, SteadyTime now);

  void reloading();  // READY follows when all is well again
  void stopping();
  // STATUS= if it is new; with READY=1 if that is owed and `ready`.
  void state(const std::string& text, bool ready, SteadyTime now);
  void owe_ready() { said_ready_ = false; }
  void feed_watchdog(SteadyTime now);

  SteadyTime next_deadline(bool stopping) const;

 private:
  bool silent_;
  bool said_ready_ = false;
  bool owes_reloading_ = false;
  std::string said_;
  SteadyTime again_ = SteadyTime::max();  // when systemd could not be told
  const std::optional<milliseconds> watchdog_;
  SteadyTime watchdog_due_{};
};

}  // namespace freshet
