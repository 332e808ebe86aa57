// What only Redis knows and /metrics shows: sizes of ranks, the stream, the seen-filter; whether it
// lost its items, which lists say; how full it is, which stops public writes; and its time, by
// which hosts agree. Answers for the host's spools when somebody was erased. One worker, whoever
// comes first, reads it for all: sizes each kSampleIntervalMs, the others each kHealthIntervalMs.
#pragma once

#include "core/feed/ports.h"
#include "core/readers/spool_registry.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

class RedisSampler {
 public:
  // References outlive this.
  RedisSampler(redis::Redis& redis, feed::FeedStore& feed, const redis::Keys& keys, const Settings& settings,
          RedisSample& sample)
      : redis_(redis),
        feed_(feed),
        keys_(keys),
        stream_max_(keys.per_partition(settings.recorder.stream_max_len)),
        spools_(settings.spool, keys),
        sample_(sample) {}

  // Before connections are taken: agrees on Redis' time, and makes the host's spools known there. 1
  // RTT, or 2. Errors: Redis' own.
  Task<Result<void>> start();
  // Now and then; `now` on CLOCK_MONOTONIC. Asks Redis when it is time and nobody else does: 1 RTT
  // for its health (2 when an erasure is answered), 2 for the sizes, behind all requests.
  void tick(milliseconds now);

 private:
  static bool claim(std::atomic<std::int64_t>& claimed_ms, std::int64_t interval_ms, milliseconds now);
  Task<void> sample_health(milliseconds now);
  void update_clock(const redis::Reply& time, std::chrono::microseconds sent_at);
  Task<void> sample_key_stats();

  redis::Redis& redis_;
  feed::FeedStore& feed_;
  const redis::Keys& keys_;
  const std::int64_t stream_max_;  // of each group
  const readers::SpoolRegistry spools_;
  RedisSample& sample_;
  bool sampling_health_ = false;
  bool sampling_key_stats_ = false;
};

}  // namespace freshet
