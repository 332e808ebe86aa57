// Writes a worker's statistics to its scoreboard slot: a few relaxed stores per loop iteration, the
// rest twice a second.
#pragma once

#include <chrono>
#include <cstdint>

#include "core/async/event_loop.h"
#include "core/hot/contributions.h"
#include "core/hot/hot_lists.h"
#include "core/hot/rank_updater.h"
#include "core/items/card_cache.h"
#include "core/items/impression_counter.h"
#include "core/model/active_model.h"
#include "core/readers/read_buffer.h"
#include "core/redis/background.h"
#include "core/redis/redis_client.h"
#include "core/timeline/timeline_store.h"
#include "fcgi/gateway/gateway.h"
#include "fcgi/observe/request_observer.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

class WorkerReport {
 public:
  struct Sources {
    const EventLoop& loop;
    const gateway::Gateway& gateway;
    const redis::RedisClient& redis;
    const redis::BackgroundWriter& background;
    const hot::RankUpdater& rank_updater;
    const hot::ContributionBuffer& contributions;
    const items::ImpressionCounter& impressions;
    const readers::ReadBuffer& reads;
    const timeline::RedisTimelineStore& timelines;
    const hot::HotLists& lists;
    const items::CardCache& cards;
    const model::ActiveModel& model;
    observe::RequestObserver& observer;
    int listen_fd;
  };
  WorkerReport(Scoreboard& board, WorkerSlot& slot, Sources sources)
      : board_(board), slot_(slot), sources_(sources) {}

  // Call at the end of a loop iteration.
  void on_iteration();
  // Call before the listen socket is closed.
  void stop_listening() { sources_.listen_fd = -1; }
  // Call twice a second: reports what is expensive or not urgent.
  void on_heartbeat();

 private:
  void report_redis();
  void report_process();
  void report_listen_queue();
  std::atomic<std::uint64_t>& refused(Refusal reason) {
    return slot_.refused[static_cast<std::size_t>(reason)];
  }

  Scoreboard& board_;
  WorkerSlot& slot_;
  Sources sources_;
  std::chrono::steady_clock::time_point last_iteration_{};  // start of the last iteration that was counted
  std::chrono::steady_clock::time_point measured_at_{};
  std::uint64_t measured_cpu_us_ = 0;
};

}  // namespace freshet
