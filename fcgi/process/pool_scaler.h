// Adjusts the number of workers of the serving generation. Checks once a second which workers are
// idle and, for pm = ondemand, whether a connection waits without an idle worker.
#pragma once

#include "fcgi/process/pool.h"

namespace freshet {

class PoolScaler {
 public:
  // References must outlive this object. `listen_fd` is shared with the workers; −1: none.
  PoolScaler(Pool& pool, Scoreboard& board, int listen_fd)
      : pool_(pool), board_(board), listen_fd_(listen_fd) {}

  // Opens and closes positions of the generation, drains surplus workers, and updates PoolCounters.
  // Has no effect until all initial workers were ready.
  void tick(Generation& generation, SteadyTime now);
  // Poll this descriptor for input until the next deadline; −1: none.
  int fd_to_watch(const Generation& generation, SteadyTime now) const;
  // When tick() must run again.
  SteadyTime next_deadline(const Generation& generation, SteadyTime now) const;

 private:
  void update_max_active();
  void adjust(Generation& generation, SteadyTime now);
  void drain_expired(Generation& generation, SteadyTime now);
  void apply(const PoolAdjustment& adjustment, Generation& generation, SteadyTime now);
  bool has_pending_connection() const;

  Pool& pool_;
  Scoreboard& board_;
  int listen_fd_;
  SteadyTime next_check_at_{};
  SteadyTime paused_until_{};
};

}  // namespace freshet
