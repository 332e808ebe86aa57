// Upgrade to a new binary, as seen by the old master. The new binary first checks the configuration
// (-t). Then it starts next to the old master with the listen sockets (handover.h), and the old
// master waits until its workers are ready. Until commit() the upgrade can be canceled.
//
// systemd treats a main process that is not its own child as alien: it does not wait for its end,
// and a stop kills it at once. Therefore a relay process is the new master's parent until that is
// ready, and is then killed. The new master is thereby reparented to systemd (or another subreaper)
// before it is announced.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "fcgi/process/handover.h"
#include "fcgi/process/respawn.h"

namespace freshet {

// An executable and its arguments.
struct Program {
  std::string path;                         // absolute; empty: the binary is never replaced
  std::vector<std::string> arguments;       // to start the service, with argv[0]
  std::vector<std::string> test_arguments;  // for the configuration check, which exits with 0 on success
};
// The program of this process; `test_arguments` is empty.
Program current_program(int argc, const char* const argv[]);

class Upgrade {
 public:
  // `state` is handed over (handover.h).
  Upgrade(Program program, std::string state);
  ~Upgrade();
  Upgrade(const Upgrade&) = delete;
  Upgrade& operator=(const Upgrade&) = delete;

  // True if the installed file differs from the running one. Never in process 1, because a
  // container ends with it.
  bool binary_changed() const;
  // Starts the configuration check. What `fds` refers to must live while is_in_progress().
  // REQUIRES: !is_in_progress().
  void begin(const HandoverFds& fds, SteadyTime deadline, milliseconds kill_timeout);
  bool is_in_progress() const { return is_pending() || is_running(); }
  bool is_pending() const { return phase_ != Phase::kNone; }  // no outcome yet
  // Outcome, valid until the next begin().
  bool is_ready() const { return phase_ == Phase::kReady; }
  bool has_failed() const { return !failure_.empty(); }
  std::string take_failure() { return std::exchange(failure_, {}); }

  // Returns true if `pid` was one of its children. `status` is the one from waitpid().
  bool reap(pid_t pid, int status, SteadyTime now);
  void tick(SteadyTime now);
  // Reads the new master's messages. After commit() returns the signal that it forwards; 0: none.
  int read_channel();
  // Sends `signal` to what was started, and KILL if it does not end in time.
  void cancel(int signal, SteadyTime now);

  // Makes the new master the service. REQUIRES: is_ready(). From then on its parent sees its exit
  // status, not this process.
  void commit();
  bool is_committed() const { return phase_ == Phase::kCommitted; }
  bool has_successor_ended() const { return channel_.is_closed(); }
  pid_t successor_pid() const { return successor_pid_; }

  int channel_fd() const { return channel_.fd(); }
  SteadyTime next_deadline() const;

 private:
  enum class Phase { kNone, kChecking, kStarting, kDetaching, kReady, kCommitted };
  pid_t launch(const std::vector<std::string>& arguments, const std::function<void()>& in_child) const;
  // Starts the new master (successor_pid_) as a grandchild and returns the pid of the child. On
  // failure successor_pid_ < 1.
  pid_t launch_detached(int channel);
  void start_successor(SteadyTime now);
  void on_successor_lost();
  // The check, or the new master, has not ended.
  bool is_running() const { return child_pid_ != 0 || (successor_pid_ != 0 && !channel_.is_closed()); }
  pid_t signal_target() const { return successor_pid_ != 0 ? successor_pid_ : child_pid_; }
  void fail(std::string reason, SteadyTime now);
  std::string check_output() const;

  const Program program_;
  const std::string handover_state_;
  HandoverFds handover_fds_;
  milliseconds kill_timeout_{};
  Phase phase_ = Phase::kNone;
  pid_t child_pid_ = 0;  // the check or the relay; 0: no child to reap
  pid_t successor_pid_ = 0;
  bool detached_ = false;
  Channel channel_{Descriptor()};
  Descriptor check_output_;  // output of the check: a file in memory
  SteadyTime ready_deadline_ = SteadyTime::max();
  SteadyTime kill_at_ = SteadyTime::max();
  std::string failure_;
};

}  // namespace freshet
