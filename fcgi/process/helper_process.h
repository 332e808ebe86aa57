// A child of the master that serves no reader requests: the recorder, the status process or the
// model publisher. At most one of each runs at a time. The master restarts it when it dies and
// replaces it when the settings change. Its failures do not affect the workers or READY.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/config/settings.h"
#include "fcgi/process/respawn.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

// Runs in the child and returns its exit status. Opens its own resources. SIGTERM asks it to end,
// SIGUSR1 to reopen the log.
using HelperMain = std::function<int(const Settings&)>;
// For the status process, which serves a non-blocking listen socket. The socket stays open in the
// master, so connections queue while the process is replaced.
using StatusMain = std::function<int(const Settings&, int listen_fd)>;

struct HelperRole {
  const char* name;  // at most 15 bytes
  HelperMain main;   // empty: the process is never started
  // Counter that grows with the process's work, across restarts. A process that dies without
  // progress since its start is restarted after respawn_delay(), otherwise at once. If empty,
  // running for kStableAfter counts as progress.
  std::function<std::uint64_t()> progress;
  std::function<std::vector<int>()> fds_to_close;  // the master's descriptors, evaluated at the fork
};

class HelperProcess {
 public:
  static constexpr std::chrono::seconds kStableAfter{10};

  // `slot` is written by the master and read by the status pages.
  HelperProcess(HelperSlot& slot, HelperRole role);

  // Runs the process with these settings, which must outlive it here, or stops it (null). A running
  // process is asked to end first; its replacement starts when it has ended.
  void set_desired(const Settings* settings, SteadyTime now);
  // Starts the process when it is due. Kills one that did not end within process_control_timeout.
  void tick(SteadyTime now);
  // Returns true if `pid` was this process. `status` is the one from waitpid().
  bool reap(pid_t pid, int status, SteadyTime now);
  void reopen_log() const;

  bool is_running() const { return pid_ != 0; }
  SteadyTime next_deadline() const;  // when tick() must run again

 private:
  void start(SteadyTime now);
  bool made_progress(SteadyTime now) const;
  bool needs_start() const { return pid_ == 0 && desired_settings_ != nullptr; }

  HelperSlot& slot_;
  const HelperRole role_;
  const pid_t master_pid_;
  const Settings* desired_settings_ = nullptr;
  pid_t pid_ = 0;
  bool stop_requested_ = false;
  milliseconds stop_timeout_{};
  SteadyTime kill_at_ = SteadyTime::max();
  SteadyTime next_start_at_{};
  std::uint64_t progress_at_start_ = 0;
  SteadyTime started_at_{};
  int failed_starts_ = 0;  // consecutive deaths without progress
};

}  // namespace freshet
