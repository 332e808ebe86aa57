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
  bool retiring = false;       // said 'X': serves on until its replacement is ready
  bool missed_reopen = false;  // the log was reopened before it could take USR1
  int asked = 0;               // the last signal that asked it to end, 0 when none
  SteadyTime patience_ends = SteadyTime::max();
  SteadyTime ready_at{};
  SteadyTime idle_since{};          // as of the last look
  std::uint64_t requests_seen = 0;  // at the last look
  milliseconds control_timeout{}, turn_timeout{};

  bool serves() const { return asked == 0 && !retiring; }
};

struct Death {
  Worker worker;
  int status = 0;  // as of waitpid
  bool expected() const { return worker.asked != 0 || worker.retiring; }
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
  std::optional<Death> reap(pid_t pid, int status, const std::vector<Generation*>& generations,
                            SteadyTime now);
  // Asks all workers of the generation (0: of all) to end: QUIT (then TERM) or TERM, and KILL when
  // patience runs out.
  void ask_to_end(std::uint32_t generation, int signal, SteadyTime now);
  // A generation that is given up: those that are ready may hold requests and drain, the others
  // end.
  void give_up(std::uint32_t generation, SteadyTime now);
  // Insists where patience ran out, and kills workers whose loop has not turned since
  // `watched_since` and longer than allowed.
  void enforce(SteadyTime now, SteadyTime watched_since);
  void reopen_logs();
  // Closes the worker's position and lets it drain.
  void send_away(pid_t pid, Generation& generation, SteadyTime now);
  // A look at every worker: one that has requests inside or has answered some since the last look
  // is not idle since then.
  void note_idle(SteadyTime now);

  Census census(const Generation& generation) const;
  // The idle worker of this generation that has been so longest; none when none is idle this
  // moment.
  std::optional<Worker> longest_idle(const Generation& generation) const;
  bool all_ready(const Generation& generation) const;
  std::size_t ready_count(std::uint32_t generation) const;
  std::size_t free_slots() const;
  bool empty() const { return workers_.empty(); }
  const std::vector<Worker>& workers() const { return workers_; }
  // What a fork inherits of the master: its own descriptors and the workers' pipes, without the
  // listen socket.
  std::vector<int> descriptors() const;
  // When fork_missing() or enforce() has something to do next.
  SteadyTime next_deadline(Generation* generation, SteadyTime now, SteadyTime watched_since) const;

 private:
  bool fork_worker(Generation& generation, std::size_t position, SteadyTime now);
  [[noreturn]] void run_in_child(const Generation& generation, std::size_t slot, int ready_fd, int other_end);
  void became_ready(Worker& worker, Generation* generation, SteadyTime now);
  void ask(Worker& worker, int signal, milliseconds patience, SteadyTime now);
  bool wanted(const Generation& generation, std::size_t position) const;
  SteadyTime stuck_at(const Worker& worker, SteadyTime watched_since) const;
  Worker* find(pid_t pid);

  Scoreboard& board_;
  int listen_fd_;
  std::function<std::vector<int>()> master_fds_;
  pid_t master_pid_;  // noted here: a child that asked for its parent could already get another one
  std::vector<Worker> workers_;
};

}  // namespace freshet
