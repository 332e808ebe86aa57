// Keeps the serving generation as large as it should be: looks once a second who is idle, and for
// pm = ondemand whether a connection waits that nobody would take.
#pragma once

#include "fcgi/process/pool.h"

namespace freshet {

class PoolScaler {
 public:
  // The references must outlive it. `listen_fd` is shared with the workers; −1: none.
  PoolScaler(Pool& pool, Scoreboard& board, int listen_fd) : pool_(pool), board_(board), listen_fd_(listen_fd) {}

  // Opens and closes positions of the generation, asks workers that are not needed to drain, and
  // writes PoolCounters. Does nothing before all the workers it began with were ready.
  void tick(Generation& generation, SteadyTime now);
  // To wait for until it can be read, before the next deadline; −1: nothing.
  int fd_to_watch(const Generation& generation, SteadyTime now) const;
  // When tick() has something to do next.
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
