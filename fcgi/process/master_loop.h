// Class Master, shared by its two sources: master.cpp supervises and stops, master_transitions.cpp
// reloads and upgrades. All other files include master.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fcgi/process/crash_counter.h"
#include "fcgi/process/master.h"
#include "fcgi/process/old_master.h"
#include "fcgi/process/pid_file.h"
#include "fcgi/process/pool_scaler.h"
#include "fcgi/process/signals.h"
#include "fcgi/process/systemd_notifier.h"

namespace freshet {

// Resources that a master opens before it forks its first child.
struct MasterResources {
  SignalQueue signals;
  Listeners listeners;
  OldMaster old_master;
  std::optional<PidFile> pid_file;        // empty until takeover: the old master's file is still there
  Descriptor lease_reader, lease_writer;  // ends of the recorder's lease (handover.h)
};

class Master {
 public:
  Master(std::unique_ptr<Generation> first, Scoreboard& board, const LoadFunction& load,
         const MasterOptions& options, MasterResources resources);
  int run();

 private:
  void wait_for_events(SteadyTime deadline);
  void tick(SteadyTime now);
  SteadyTime next_deadline(SteadyTime now);
  void read_signals(SteadyTime now);
  void handle_signal(const SignalRow& signal, SteadyTime now);
  void reopen_logs();
  void check_files(SteadyTime now);
  void reap_children(SteadyTime now);
  void record_crash(SteadyTime now);
  void record_rejected_config(const WorkerDeath& death, SteadyTime now);
  void stop(int signal, SteadyTime now);
  void begin_shutdown(int signal, SteadyTime now);
  bool is_finished() const;

  std::vector<int> master_fds() const;
  std::vector<int> fds_to_close_except(int kept_fd) const;
  HelperRole recorder_role();
  HelperRole status_role();
  HelperRole model_publisher_role();
  void update_recorder(SteadyTime now);
  void update_model_publisher(SteadyTime now);

  void queue_change(int signal);
  void start_pending_change(SteadyTime now);
  void handle_outcomes(SteadyTime now);
  void finish_reload(const Generation& previous, SteadyTime now);
  void report_failed_change(const std::string& reason);
  void announce_status(SteadyTime now);
  // In the old master.
  void hand_over(SteadyTime now);
  void read_successor(SteadyTime now);
  // In the new master.
  void report_ready_to_old_master();
  void read_old_master(SteadyTime now);
  void take_over(SteadyTime now);
  void abort_takeover(const char* reason, SteadyTime now);

  Scoreboard& board_;
  const MasterOptions& options_;
  SignalQueue signals_;
  Listeners listeners_;
  OldMaster old_master_;
  std::optional<PidFile> pid_file_;
  Descriptor lease_reader_, lease_writer_;
  SystemdNotifier notifier_;
  Upgrade upgrade_;
  Pool pool_;
  PoolScaler scaler_;
  CrashCounter crashes_;
  int config_rejections_ = 0;  // consecutive workers that ended with kExitConfig
  HelperProcess recorder_, status_process_, model_publisher_;
  Reload reload_;
  SteadyTime next_file_check_{};            // when options_.needs_reload() is called
  int pending_signal_ = 0;                  // SIGHUP or SIGUSR2 to be carried out; 0: none
  std::vector<int> signals_for_successor_;  // signals that arrived while the successor was starting
  bool stopping_ = false;
  int exit_status_ = 0;
  std::string last_failure_;  // error of the last reload or upgrade, until one succeeds
  SteadyTime awake_since_{};  // since when the master has run without a pause
};

}  // namespace freshet
