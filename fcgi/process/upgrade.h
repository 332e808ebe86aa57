// The way to a new binary, seen from the old master: the file is asked whether it accepts the
// configuration, then started beside the old master with the listen sockets (handover.h), and
// waited for until its workers are ready. Until it is told to go everything can be taken back.
//
// systemd takes a main process for alien that is not its own child: it does not wait for its end,
// and a stop kills at once. So a process stands between the two masters: it is the new one's parent
// until that is ready, and is killed then. The new one is a child of systemd (of whoever takes
// orphans) before it is announced.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/time.h"
#include "fcgi/process/handover.h"
#include "fcgi/process/respawn.h"

namespace freshet {

// This executable, as it is started again.
struct Program {
  std::string path;                    // absolute, as it was started by; empty: it is never replaced
  std::vector<std::string> arguments;  // of the service, with argv[0]
  std::vector<std::string> test_arguments;       // with which it checks the configuration: it exits 0 when that is good
};
// Of this process; `test` is left empty.
Program current_program(int argc, const char* const argv[]);

class Upgrade {
 public:
  // `state` is passed on (handover.h).
  Upgrade(Program program, std::string state);
  ~Upgrade();
  Upgrade(const Upgrade&) = delete;
  Upgrade& operator=(const Upgrade&) = delete;

  // True when another file stands at the program's path than the one that runs here. (Never in
  // process 1: a container ends with it.)
  bool binary_changed() const;
  // Starts the check. What was given must live until it is no more under_way(). REQUIRES:
  // !under_way().
  void begin(const HandoverFds& fds, SteadyTime deadline, milliseconds kill_timeout);
  bool is_in_progress() const { return is_pending() || is_running(); }
  bool is_pending() const { return phase_ != Phase::kNone; }  // nothing has come of it yet
  // What came of it, until the next begin(): ready to go, or the reason why not.
  bool is_ready() const { return phase_ == Phase::kReady; }
  bool has_failed() const { return !failure_.empty(); }
  std::string take_failure() { return std::exchange(failure_, {}); }

  // True when the dead child was one of these; `status` as of waitpid.
  bool reap(pid_t pid, int status, SteadyTime now);
  void tick(SteadyTime now);
  // Reads what the new master says. Once it went: the signal it asks to pass on, or 0.
  int read_channel();
  // Ends what was started with this signal, and with KILL when its patience is over.
  void cancel(int signal, SteadyTime now);

  // The new master is the service from now on. REQUIRES: ready(). Its end is no business of this
  // process any more: its parent sees its exit status.
  void commit();
  bool is_committed() const { return phase_ == Phase::kCommitted; }
  bool has_successor_ended() const { return channel_.is_closed(); }  // the new master has ended
  pid_t successor_pid() const { return successor_pid_; }

  int channel_fd() const { return channel_.fd(); }
  SteadyTime next_deadline() const;

 private:
  enum class Phase { kNone, kChecking, kStarting, kDetaching, kReady, kCommitted };
  pid_t launch(const std::vector<std::string>& arguments, const std::function<void()>& in_child) const;
  // Starts the new master, successor_, as the child of a child, which is returned. On failure
  // successor_ < 1.
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
  pid_t child_pid_ = 0;      // the check, or what stands between; 0: none is left to reap
  pid_t successor_pid_ = 0;  // the new master
  bool detached_ = false;
  Channel channel_{Descriptor()};
  Descriptor check_output_;  // of the check: a file in memory
  SteadyTime ready_deadline_ = SteadyTime::max();
  SteadyTime kill_at_ = SteadyTime::max();
  std::string failure_;
};

}  // namespace freshet
