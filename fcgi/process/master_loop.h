// The master itself, for its two files: master.cpp supervises and stops, master_change.cpp reloads
// and upgrades. Everybody else includes master.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fcgi/process/announcer.h"
#include "fcgi/process/emergency.h"
#include "fcgi/process/master.h"
#include "fcgi/process/old_master.h"
#include "fcgi/process/pid_file.h"
#include "fcgi/process/scaling.h"
#include "fcgi/process/signals.h"

namespace freshet {

// What a master has before it forks anything.
struct Equipment {
  SignalQueue signals;
  Listeners listeners;
  OldMaster old_master;
  std::optional<PidFile> pid_file;  // none yet: the old master's stands there
  Descriptor lease, held;           // the two ends of the recorder's lease (handover.h)
};

class Master {
 public:
  Master(std::unique_ptr<Generation> first, Scoreboard& board, const LoadFunction& load,
         const MasterOptions& options, Equipment equipment);
  int run();

 private:
  void wait(SteadyTime deadline);
  void tick(SteadyTime now);
  SteadyTime next_deadline(SteadyTime now);
  void take_signals(SteadyTime now);
  void obey(const SignalRow& signal, SteadyTime now);
  void reopen_logs();
  void collect_dead(SteadyTime now);
  void count_crash(SteadyTime now);
  void stop(int signal, SteadyTime now);
  void begin_end(int signal, SteadyTime now);
  bool ended() const;

  std::vector<int> own_fds() const;
  std::vector<int> inherited_without(int kept) const;
  CompanionRole recorder_role();
  CompanionRole status_role();
  CompanionRole keeper_role();
  void want_recorder(SteadyTime now);
  void want_keeper(SteadyTime now);

  void request(int signal);
  void run_pending(SteadyTime now);
  void take_outcomes(SteadyTime now);
  void finish_reload(const Generation& old, SteadyTime now);
  void give_up(const std::string& why);
  void announce(SteadyTime now);
  // As the old master.
  void hand_over(SteadyTime now);
  void hear_successor(SteadyTime now);
  // As the new one.
  void prepare_to_take_over();
  void hear_old_master(SteadyTime now);
  void take_over(SteadyTime now);
  void fail_to_take_over(const char* why, SteadyTime now);

  Scoreboard& board_;
  const MasterOptions& options_;
  SignalQueue signals_;
  Listeners listeners_;
  OldMaster old_master_;
  std::optional<PidFile> pid_file_;
  Descriptor lease_, held_;
  Announcer announcer_;
  Upgrade upgrade_;
  Pool pool_;
  Scaling scaling_;
  CrashWatch crashes_;
  Companion recorder_, status_, keeper_;
  Reload reload_;
  int pending_ = 0;                 // HUP or USR2, to be carried out
  std::vector<int> for_successor_;  // signals that came while it was on its way
  bool stopping_ = false;
  int exit_status_ = 0;
  std::string failure_;         // of the last reload or upgrade, until one succeeds
  SteadyTime watched_since_{};  // the master itself was awake since then
};

}  // namespace freshet
