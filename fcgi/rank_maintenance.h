// Keeps ranks in step with half-life and weights, by which they are keyed: when these were changed
// they are made anew, by one worker under a lock. And it keeps ranks in step with counters: what a
// worker counted and, killed, did not place is placed, at once when it noted it, else by a walk
// over all articles (core/hot/rebuild.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/async/task.h"
#include "core/async/timer.h"
#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet {

class RankMaintenance {
 public:
  // References outlive this. `redis` is asked whether the rank is in step, `bulk` does the work.
  struct Sources {
    EventLoop& loop;
    redis::Redis& redis;
    redis::Redis& bulk;
    const Settings& settings;
    const redis::Keys& keys;
    std::vector<std::string> crash_journal;  // articles that killed workers noted
  };
  explicit RankMaintenance(Sources sources) : sources_(std::move(sources)), timer_(sources_.loop) {}

  // When this worker serves, as long as it lives. A rebuild that failed is logged and left to the
  // next worker that starts.
  Task<void> run();

 private:
  Task<void> rebuild_ranks();
  Task<void> replay_crash_journal();
  Task<void> wait_one_second();

  Sources sources_;
  Timer timer_;
};

}  // namespace freshet
