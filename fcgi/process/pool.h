// The master's table of workers. Forks missing workers, tracks which are ready, want to be replaced
// or died, and escalates when one does not end. Knows nothing of received signals, reloads or
// systemd; master.cpp does.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "fcgi/process/child.h"
#include "fcgi/process/generation.h"
#include "fcgi/process/worker_context.h"

namespace freshet {

struct Worker {
  pid_t pid = 0;
  std::size_t slot = 0;
  std::uint32_t generation = 0;
  std::size_t position = 0;
  int ready_fd = -1;               // read end; −1 once the worker closed its end
  bool ready = false;              // sent 'R'
  bool wants_replacement = false;  // sent 'X'; serves until its replacement is ready
  bool missed_reopen = false;      // the log was reopened before it could handle USR1
  int stop_signal = 0;             // last signal that asked it to end; 0: none
  SteadyTime escalate_at = SteadyTime::max();
  SteadyTime ready_at{};
  SteadyTime idle_since{};          // as of the last update_idle_times()
  std::uint64_t requests_seen = 0;  // at the last update_idle_times()
  milliseconds stop_timeout{}, stuck_timeout{};

  bool is_serving() const { return stop_signal == 0 && !wants_replacement; }
};

struct WorkerDeath {
  Worker worker;
  int status = 0;  // from waitpid()
  bool was_expected() const { return worker.stop_signal != 0 || worker.wants_replacement; }
};

class Pool {
 public:
  // `master_fds` is called at each fork; the worker closes these descriptors. References must
  // outlive the pool.
  Pool(Scoreboard& board, int listen_fd, std::function<std::vector<int>()> master_fds);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Forks a worker for each position that needs one and whose delay has passed.
  void fork_missing(Generation& generation, SteadyTime now);
  // Reads 'R' or 'X' from the worker's pipe. When a replacement becomes ready, the worker that it
  // replaces is drained.
  void read_pipe(pid_t pid, Generation* generation, SteadyTime now);
  // Removes a dead worker and records in its generation when the position may fork again. Empty if
  // `pid` was not a worker. `status` is the one from waitpid().
  std::optional<WorkerDeath> reap(pid_t pid, int status, const std::vector<Generation*>& generations,
                                  SteadyTime now);
  // Asks the workers of a generation (0: all) to end with QUIT or TERM. Escalates QUIT to TERM and
  // TERM to KILL after a timeout.
  void stop_workers(std::uint32_t generation, int signal, SteadyTime now);
  // For an aborted generation: drains the workers that are ready, since they may have requests, and
  // terminates the others.
  void abandon_generation(std::uint32_t generation, SteadyTime now);
  // Escalates where a timeout has passed, and kills workers whose loop has made no iteration since
  // `awake_since` for longer than allowed.
  void enforce_timeouts(SteadyTime now, SteadyTime awake_since);
  void reopen_logs();
  // Closes the worker's position and drains the worker.
  void drain_worker(pid_t pid, Generation& generation, SteadyTime now);
  // A worker that has requests in flight, or has answered some since the last call, counts as not
  // idle since then.
  void update_idle_times(SteadyTime now);

  WorkerCounts count_workers(const Generation& generation) const;
  // The worker of this generation that has been idle longest. Empty if none is idle now.
  std::optional<Worker> longest_idle(const Generation& generation) const;
  bool all_ready(const Generation& generation) const;
  std::size_t ready_count(std::uint32_t generation) const;
  std::size_t free_slot_count() const;
  bool empty() const { return workers_.empty(); }
  const std::vector<Worker>& workers() const { return workers_; }
  // The master's descriptors that a fork inherits: `master_fds` and the workers' pipes, without the
  // listen socket.
  std::vector<int> inherited_fds() const;
  // When fork_missing() or enforce_timeouts() must run again.
  SteadyTime next_deadline(Generation* generation, SteadyTime now, SteadyTime awake_since) const;

 private:
  bool fork_worker(Generation& generation, std::size_t position, SteadyTime now);
  [[noreturn]] void run_in_child(const Generation& generation, std::size_t slot_index, int ready_fd,
                                 int read_end);
  void on_worker_ready(Worker& worker, Generation* generation, SteadyTime now);
  void send_stop(Worker& worker, int signal, milliseconds timeout, SteadyTime now);
  bool needs_worker(const Generation& generation, std::size_t position) const;
  SteadyTime stuck_deadline(const Worker& worker, SteadyTime awake_since) const;
  Worker* find(pid_t pid);

  Scoreboard& board_;
  int listen_fd_;
  std::function<std::vector<int>()> master_fds_;
  pid_t master_pid_;  // stored, because getppid() in a child may already return another process
  std::vector<Worker> workers_;
};

}  // namespace freshet
