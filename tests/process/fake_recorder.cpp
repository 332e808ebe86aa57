#include "tests/process/fake_recorder.h"

#include <poll.h>
#include <signal.h>

#include "tests/process/event_log.h"

namespace freshet::testing {

int fake_recorder(const Settings& settings, const std::string& secret, const std::string& event_log_path) {
  const std::string& behaviour = settings.recorder.database;
  const EventLog events(event_log_path);
  if (!events.is_only_process()) events.record("second");
  events.record("start");
  events.record("knows-" + secret);
  if (behaviour == "die") return 3;
  events.record_inherited_fds();
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGTERM, SIGUSR1}) sigaddset(&mask, signal);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  events.record("ready");
  for (int signal = 0; sigwait(&mask, &signal) == 0;) {
    if (signal == SIGUSR1) events.record("reopen");
    if (signal == SIGTERM && behaviour != "stubborn") break;
  }
  if (behaviour == "slow") poll(nullptr, 0, 300);
  events.record("end");
  return 0;
}

}  // namespace freshet::testing
