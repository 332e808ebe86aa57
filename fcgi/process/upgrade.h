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
  std::vector<std::string> test;       // with which it checks the configuration: it exits 0 when that is good
};
// Of this process; `test` is left empty.
Program this_program(int argc, const char* const argv[]);

class Upgrade {
 public:
  // `state` is passed on (handover.h).
  Upgrade(Program program, std::string state);
  ~Upgrade();
  Upgrade(const Upgrade&) = delete;
  Upgrade& operator=(const Upgrade&) = delete;

  // True when another file stands at the program's path than the one that runs here. (Never in
  // process 1: a container ends with it.)
  bool offered() const;
  // Starts the check. What was given must live until it is no more under_way(). REQUIRES:
  // !under_way().
  void begin(const InheritedFds& inherited, SteadyTime deadline, milliseconds patience);
  bool under_way() const { return pending() || lives(); }
  bool pending() const { return stage_ != Stage::kNone; }  // nothing has come of it yet
  // What came of it, until the next begin(): ready to go, or the reason why not.
  bool ready() const { return stage_ == Stage::kReady; }
  bool failed() const { return !failure_.empty(); }
  std::string take_failure() { return std::exchange(failure_, {}); }

  // True when the dead child was one of these; `status` as of waitpid.
  bool reap(pid_t pid, int status, SteadyTime now);
  void tick(SteadyTime now);
  // Reads what the new master says. Once it went: the signal it asks to pass on, or 0.
  int hear();
  // Ends what was started with this signal, and with KILL when its patience is over.
  void cancel(int signal, SteadyTime now);

  // The new master is the service from now on. REQUIRES: ready(). Its end is no business of this
  // process any more: its parent sees its exit status.
  void go();
  bool went() const { return stage_ == Stage::kGone; }
  bool over() const { return channel_.over(); }  // the new master has ended
  pid_t successor() const { return successor_; }

  int channel_fd() const { return channel_.fd(); }
  SteadyTime next_deadline() const;

 private:
  enum class Stage { kNone, kChecking, kStarting, kReleasing, kReady, kGone };
  pid_t launch(const std::vector<std::string>& arguments, const std::function<void()>& in_child) const;
  // Starts the new master, successor_, as the child of a child, which is returned. On failure
  // successor_ < 1.
  pid_t launch_apart(int channel);
  void start(SteadyTime now);
  void lose_orphan();
  // The check, or the new master, has not ended.
  bool lives() const { return child_ != 0 || (successor_ != 0 && !channel_.over()); }
  pid_t addressee() const { return successor_ != 0 ? successor_ : child_; }
  void fail(std::string why, SteadyTime now);
  std::string output() const;

  const Program program_;
  const std::string state_;
  InheritedFds inherited_;
  milliseconds patience_{};
  Stage stage_ = Stage::kNone;
  pid_t child_ = 0;      // the check, or what stands between; 0: none is left to reap
  pid_t successor_ = 0;  // the new master
  bool released_ = false;
  Channel channel_{Descriptor()};
  Descriptor output_;  // of the check: a file in memory
  SteadyTime deadline_ = SteadyTime::max();
  SteadyTime patience_ends_ = SteadyTime::max();
  std::string failure_;
};

}  // namespace freshet
