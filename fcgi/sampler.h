// What only Redis knows and /metrics shows: sizes of ranks, the stream, the seen-filter. Each kSampleInterval
// one worker, whoever comes first, reads it for all.
#pragma once

#include "core/async/redis.h"
#include "core/feed/ports_feed.h"
#include "core/store/keys.h"
#include "fcgi/process/scoreboard.h"

namespace freshet {

class Sampler {
 public:
  // References outlive this.
  Sampler(redis::Redis& redis, feed::FeedStore& feed, const store::Keys& keys, StoreSample& sample)
      : redis_(redis), feed_(feed), keys_(keys), sample_(sample) {}

  // Now and then; `now` on CLOCK_MONOTONIC. Asks Redis when it is time and nobody else does: 2 RTT, behind
  // all requests.
  void tick(milliseconds now);

 private:
  Task<void> take();

  redis::Redis& redis_;
  feed::FeedStore& feed_;
  const store::Keys& keys_;
  StoreSample& sample_;
  bool taking_ = false;
};

}  // namespace freshet
