// Maintains the ranks in the background. Rebuilds them, in one worker under a lock, when half-life
// or weights changed, since ranks are computed with these. Applies rank updates that were lost:
// every second those of events whose replies were lost and of killed workers' crash journals,
// otherwise in the periodic scan over all articles (core/hot/rebuild.h).
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/async/task.h"
#include "core/async/timer.h"
#include "core/config/settings.h"
#include "core/hot/rank_updater.h"
#include "core/hot/rebuild.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet {

class RankMaintenance {
 public:
  // References must outlive this object. `redis` checks the parameters, `bulk` does the work.
  struct Sources {
    EventLoop& loop;
    redis::Redis& redis;
    redis::Redis& bulk;
    const Settings& settings;
    const redis::Keys& keys;
    hot::RankUpdater& rank_updater;
    std::function<std::vector<std::string>()> take_crash_journals;  // those of dead workers
  };
  explicit RankMaintenance(Sources sources) : sources_(std::move(sources)), timer_(sources_.loop) {}

  // Runs for the life of a serving worker. A failed rebuild is logged and left to the next worker
  // that starts.
  Task<void> run();

 private:
  Task<void> rebuild_ranks(const hot::ModelList& models);
  Task<void> rank_articles_again();
  Task<void> wait_one_second();

  Sources sources_;
  Timer timer_;
};

}  // namespace freshet
