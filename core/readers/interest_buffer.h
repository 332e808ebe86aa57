// Per-worker buffer of readers' interests, from long reads. Written to Redis asynchronously.
#pragma once

#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/write_queue.h"

namespace freshet::readers {

class InterestBuffer {
 public:
  static constexpr milliseconds kFlushInterval{250};
  static constexpr std::size_t kMaxEntries = 64;  // reports per command

  // All references must outlive this.
  InterestBuffer(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys,
                 redis::RunAfter after = {});
  // Records a report on a page view. A dwell time of feed.interest_min_dwell or more makes the item
  // the reader's newest interest. Flushed kFlushInterval after the first entry or at kMaxEntries,
  // as one script call with three inner commands per entry. No round trip. Lost if the worker is
  // killed or Redis is unavailable.
  void add(const ReaderId& reader, const ItemId& item, milliseconds dwell);
  void flush();
  std::size_t size() const { return pending_.size(); }

 private:
  redis::WriteQueue& write_queue_;
  const Settings& settings_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  std::vector<std::pair<ReaderId, ItemId>> pending_;  // newest last
};

}  // namespace freshet::readers
