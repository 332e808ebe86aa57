// Keeps hot:rank in step with half-life and weights, by which it is keyed: when they were changed it is made
// anew, by one worker under a lock. Workers of an older generation write with the old ones until they have
// drained, so it is made once more then.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include "core/async/event_loop.h"
#include "core/async/task.h"
#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

class RankKeeper {
 public:
  // References outlive this. `redis` is asked whether the rank is in step, `bulk` makes it.
  struct Sources {
    EventLoop& loop;
    redis::Redis& redis;
    redis::Redis& bulk;
    const Settings& settings;
    const redis::Keys& keys;
    Scoreboard& board;
    const WorkerSlot& slot;  // this worker's own
  };
  explicit RankKeeper(Sources sources) : sources_(sources), timer_(sources.loop.io()) {}

  // Once, when this worker serves. 1 RTT when the rank is in step; a failure is logged and left to the next
  // worker that starts.
  Task<void> keep_in_step();

 private:
  Task<bool> rebuild();
  Task<void> wait_a_second();
  bool older_workers_live() const;

  const Sources sources_;
  boost::asio::steady_timer timer_;
};

}  // namespace freshet
