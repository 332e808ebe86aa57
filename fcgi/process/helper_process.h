// A child of the master beside the workers, which serves no requests of readers: the recorder, the
// one that answers status and metrics, and the keeper of the model. At most one of each lives at a
// time. It is started again when it dies and replaced when the settings change, and nothing of that
// concerns the workers: it is no part of READY.
#pragma once

#include <functional>
#include <vector>

#include "core/config/settings.h"
#include "fcgi/process/respawn.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

// Runs in the child; returns its exit status. Opens whatever it needs itself. Signals there: TERM
// asks it to end, USR1 to reopen the log.
using HelperMain = std::function<int(const Settings&)>;
// The same for one that answers on a listen socket of its own, non-blocking. The socket stays open
// in the master, so connections wait in its queue while the companion is replaced.
using StatusMain = std::function<int(const Settings&, int listen_fd)>;

struct HelperRole {
  const char* name;    // of the process; at most 15 bytes
  HelperMain main;  // none: never started
  // Grows as it gets on, in whichever of its lives. A death without progress since the fork delays
  // the next start as respawn.h says; after progress it is started at once. None: to have lived for
  // kSettled is progress.
  std::function<std::uint64_t()> progress;
  std::function<std::vector<int>()> fds_to_close;  // what it must close, as it is at the fork
};

class HelperProcess {
 public:
  static constexpr std::chrono::seconds kStableAfter{10};

  // The slot is written by the master, and read by whoever shows the status.
  HelperProcess(HelperSlot& slot, HelperRole role);

  // From now on one shall live with these settings, which must outlive it here; null: none. One
  // that lives is asked to end, and the new one starts when it has.
  void set_desired(const Settings* settings, SteadyTime now);
  // Starts it when it is due, and kills one that was asked to end and has not in
  // process_control_timeout.
  void tick(SteadyTime now);
  // True when the dead child was this one; `status` as of waitpid.
  bool reap(pid_t pid, int status, SteadyTime now);
  void reopen_log() const;

  bool is_running() const { return pid_ != 0; }
  SteadyTime next_deadline() const;  // when tick() has something to do next

 private:
  void start(SteadyTime now);
  bool made_progress(SteadyTime now) const;  // since its start
  bool needs_start() const { return pid_ == 0 && desired_settings_ != nullptr; }

  HelperSlot& slot_;
  const HelperRole role_;
  const pid_t master_pid_;
  const Settings* desired_settings_ = nullptr;
  pid_t pid_ = 0;
  bool stop_requested_ = false;  // to end
  milliseconds stop_timeout_{};
  SteadyTime kill_at_ = SteadyTime::max();
  SteadyTime next_start_at_{};
  std::uint64_t progress_at_start_ = 0;
  SteadyTime started_at_{};
  int failed_starts_ = 0;  // in a row, without progress
};

}  // namespace freshet
