#include "fcgi/recorder.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "core/base/log.h"
#include "core/recorder/recorder.h"
#include "fcgi/process/child.h"
#include "fcgi/reader_hashes.h"

namespace freshet {
namespace {

// Handles signals in a thread, because the recorder's work blocks. REQUIRES: created before other
// threads, which inherit the signal mask.
class SignalThread {
 public:
  SignalThread() {
    sigemptyset(&signals_);
    for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGUSR1}) sigaddset(&signals_, signal);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    thread_ = std::thread([this] { wait_for_signals(); });
  }
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;
  ~SignalThread() {
    // Blocked; wait_for_signals() waits for it.
    // NOLINTNEXTLINE(bugprone-bad-signal-to-kill-thread)
    pthread_kill(thread_.native_handle(), SIGTERM);
    thread_.join();
  }
  const std::atomic<bool>& stop_requested() const { return stop_requested_; }

 private:
  void wait_for_signals() {
    while (!stop_requested_.load()) {
      int signal = 0;
      if (sigwait(&signals_, &signal) != 0) continue;
      if (signal == SIGUSR1)
        log::reopen();
      else
        stop_requested_.store(true);
    }
  }

  sigset_t signals_{};
  std::atomic<bool> stop_requested_{false};
  std::thread thread_;
};

}  // namespace

int run_recorder(const Settings& settings, const StartupFiles& files, RecorderReport& report) {
  const auto endpoint = redis_endpoint(settings.redis, files);
  if (!endpoint) {
    log::error("redis_url_rejected", {{"error", endpoint.error().detail}});
    return kExitConfig;
  }
  auto identity = http::Identity::create(http::parse_identity_mode(settings.identity.mode), files.salt);
  if (!identity) {
    log::error("identity_rejected", {{"error", identity.error().detail}});
    return kExitConfig;
  }
  check_writable_file("recorder.database", settings.recorder.database);
  check_writable_folder("search.index", settings.search.index);
  report.state.store(RecorderState::kStarting);
  report.reason.store(RecorderPauseReason::kNone);
  const SignalThread signals;
  recorder::Recorder recorder(settings, *endpoint, report, reader_hashes(*identity));
  return recorder.run(signals.stop_requested());
}

}  // namespace freshet
