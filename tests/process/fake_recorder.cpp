#include "tests/process/fake_recorder.h"

#include <poll.h>
#include <signal.h>

#include "tests/process/diary.h"

namespace freshet::testing {

int fake_recorder(const Settings& settings, const std::string& secret, const std::string& diary_path) {
  const std::string& behaviour = settings.recorder.database;
  const Diary diary(diary_path);
  if (!diary.alone()) diary.note("second");
  diary.note("start");
  diary.note("knows-" + secret);
  if (behaviour == "die") return 3;
  diary.note_what_is_the_masters();
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGTERM, SIGUSR1}) sigaddset(&mask, signal);
  sigprocmask(SIG_BLOCK, &mask, nullptr);
  diary.note("ready");
  for (int signal = 0; sigwait(&mask, &signal) == 0;) {
    if (signal == SIGUSR1) diary.note("reopen");
    if (signal == SIGTERM && behaviour != "stubborn") break;
  }
  if (behaviour == "slow") poll(nullptr, 0, 300);
  diary.note("end");
  return 0;
}

}  // namespace freshet::testing
