// What only Redis knows and /metrics shows: sizes of ranks, the stream, the seen-filter; whether it
// lost its items, which lists say; and how full it is, which stops public writes. One worker,
// whoever comes first, reads it for all: sizes each kSampleIntervalMs, the others each
// kHealthIntervalMs.
#pragma once

#include "core/feed/ports.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

class Sampler {
 public:
  // References outlive this.
  Sampler(redis::Redis& redis, feed::FeedStore& feed, const redis::Keys& keys, StoreSample& sample)
      : redis_(redis), feed_(feed), keys_(keys), sample_(sample) {}

  // Now and then; `now` on CLOCK_MONOTONIC. Asks Redis when it is time and nobody else does: 1 RTT
  // for its health, 2 for the sizes, behind all requests.
  void tick(milliseconds now);

 private:
  static bool claim(std::atomic<std::int64_t>& claimed_ms, std::int64_t interval_ms, milliseconds now);
  Task<void> look_at_health(milliseconds now);
  Task<void> take();

  redis::Redis& redis_;
  feed::FeedStore& feed_;
  const redis::Keys& keys_;
  StoreSample& sample_;
  bool looking_ = false;
  bool taking_ = false;
};

}  // namespace freshet
