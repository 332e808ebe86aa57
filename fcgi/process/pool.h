// The master's book of workers: forks what is missing, learns who is ready, who wants to leave and
// who died, and insists when one that was asked to end does not. Knows nothing of signals received,
// reloads or systemd; master.cpp does.
#pragma once

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
  int ready_fd = -1;           // read end; -1 once the worker closed its own
  bool ready = false;          // said 'R'
  bool wants_replacement = false;       // said 'X': serves on until its replacement is ready
  bool missed_reopen = false;  // the log was reopened before it could take USR1
  int stop_signal = 0;               // the last signal that asked it to end, 0 when none
  SteadyTime escalate_at = SteadyTime::max();
  SteadyTime ready_at{};
  SteadyTime idle_since{};          // as of the last look
  std::uint64_t requests_seen = 0;  // at the last look
  milliseconds stop_timeout{}, stuck_timeout{};

  bool is_serving() const { return stop_signal == 0 && !wants_replacement; }
};

struct WorkerDeath {
  Worker worker;
  int status = 0;  // as of waitpid
  bool was_expected() const { return worker.stop_signal != 0 || worker.wants_replacement; }
};

class Pool {
 public:
  // `master_fds`, as they are at a fork, are closed in every worker. All references must outlive
  // the pool.
  Pool(Scoreboard& board, int listen_fd, std::function<std::vector<int>()> master_fds);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Forks a worker for each position that wants one and whose delay is over.
  void fork_missing(Generation& generation, SteadyTime now);
  // Reads what the worker wrote: 'R' or 'X'. A replacement that became ready sends the one it
  // replaces away.
  void read_pipe(pid_t pid, Generation* generation, SteadyTime now);
  // Strikes a dead child off and notes in its generation when the position may fork again; `status`
  // as of waitpid. Nothing when it was none of the workers.
  std::optional<WorkerDeath> reap(pid_t pid, int status, const std::vector<Generation*>& generations,
                            SteadyTime now);
  // Asks all workers of the generation (0: of all) to end: QUIT (then TERM) or TERM, and KILL when
  // patience runs out.
  void stop_workers(std::uint32_t generation, int signal, SteadyTime now);
  // A generation that is given up: those that are ready may hold requests and drain, the others
  // end.
  void abandon_generation(std::uint32_t generation, SteadyTime now);
  // Insists where patience ran out, and kills workers whose loop has not turned since
  // `watched_since` and longer than allowed.
  void enforce_timeouts(SteadyTime now, SteadyTime awake_since);
  void reopen_logs();
  // Closes the worker's position and lets it drain.
  void drain_worker(pid_t pid, Generation& generation, SteadyTime now);
  // A look at every worker: one that has requests inside or has answered some since the last look
  // is not idle since then.
  void update_idle_times(SteadyTime now);

  WorkerCounts count_workers(const Generation& generation) const;
  // The idle worker of this generation that has been so longest; none when none is idle this
  // moment.
  std::optional<Worker> longest_idle(const Generation& generation) const;
  bool all_ready(const Generation& generation) const;
  std::size_t ready_count(std::uint32_t generation) const;
  std::size_t free_slot_count() const;
  bool empty() const { return workers_.empty(); }
  const std::vector<Worker>& workers() const { return workers_; }
  // What a fork inherits of the master: its own descriptors and the workers' pipes, without the
  // listen socket.
  std::vector<int> inherited_fds() const;
  // When fork_missing() or enforce() has something to do next.
  SteadyTime next_deadline(Generation* generation, SteadyTime now, SteadyTime awake_since) const;

 private:
  bool fork_worker(Generation& generation, std::size_t position, SteadyTime now);
  [[noreturn]] void run_in_child(const Generation& generation, std::size_t slot_index, int ready_fd, int read_end);
  void on_worker_ready(Worker& worker, Generation* generation, SteadyTime now);
  void send_stop(Worker& worker, int signal, milliseconds timeout, SteadyTime now);
  bool needs_worker(const Generation& generation, std::size_t position) const;
  SteadyTime stuck_deadline(const Worker& worker, SteadyTime awake_since) const;
  Worker* find(pid_t pid);

  Scoreboard& board_;
  int listen_fd_;
  std::function<std::vector<int>()> master_fds_;
  pid_t master_pid_;  // noted here: a child that asked for its parent could already get another one
  std::vector<Worker> workers_;
};

}  // namespace freshet
