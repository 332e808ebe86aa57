// Reads what only Redis knows: sizes of ranks, the stream and the seen-filter for /metrics; whether
// Redis lost its items, which lists report; its memory, which pauses public writes when full; and
// its time, to which workers synchronize. Also reports the state of this host's spools after an
// erasure. One worker at a time reads for all: sizes every kKeyStatsIntervalMs, the rest every
// kHealthIntervalMs.
#pragma once

#include <cstdint>

#include "core/feed/ports.h"
#include "core/readers/spool_registry.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

class RedisSampler {
 public:
  // References must outlive this object.
  RedisSampler(redis::Redis& redis, feed::FeedStore& feed, const redis::Keys& keys, const Settings& settings,
               RedisSample& sample)
      : redis_(redis),
        feed_(feed),
        keys_(keys),
        stream_max_(keys.per_partition(settings.recorder.stream_max_len)),
        spools_(settings.spool, keys),
        sample_(sample) {}

  // Call before accepting connections: synchronizes to Redis' time, checks the server's version and
  // registers this host's spools. 1 or 2 RTT. Errors: those of Redis; "redis_too_old".
  Task<Result<void>> start();
  // Call regularly; `now` is on CLOCK_MONOTONIC. Samples asynchronously if it is due and no other
  // worker does. 1 RTT for health (2 if an erasure is answered), 2 for sizes.
  void tick(milliseconds now);

 private:
  static bool claim(std::atomic<std::int64_t>& claimed_ms, std::int64_t interval_ms, milliseconds now);
  Task<void> sample_health(milliseconds now);
  void update_clock(const redis::Reply& time, std::chrono::microseconds sent_at);
  Task<void> sample_key_stats();

  redis::Redis& redis_;
  feed::FeedStore& feed_;
  const redis::Keys& keys_;
  const std::int64_t stream_max_;  // per partition
  const readers::SpoolRegistry spools_;
  RedisSample& sample_;
  bool sampling_health_ = false;
  bool sampling_key_stats_ = false;
};

}  // namespace freshet
