// What readers took an interest in by reading, for their feeds: collected in the worker and written
// behind the replies.
#pragma once

#include <utility>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/redis/write_queue.h"
#include "core/redis/keys.h"

namespace freshet::readers {

class InterestBuffer {
 public:
  static constexpr milliseconds kFlushInterval{250};
  static constexpr std::size_t kMaxEntries = 64;  // reports of a command

  // All must outlive this.
  InterestBuffer(redis::WriteQueue& deferred, const Settings& settings, redis::Keys keys, redis::RunAfter after = {});
  // A report on a page view. Reading for feed.interest_min_dwell or longer makes the item the
  // newest of the reader's interests, kEvery after the first that waits or when kMost wait: no
  // round trip, one command, three inner ones for each. Lost with the process, or when Redis is
  // away.
  void add(const ReaderId& reader, const ItemId& item, milliseconds dwell);
  void flush();
  std::size_t size() const { return pending_.size(); }

 private:
  redis::WriteQueue& deferred_;
  const Settings& settings_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  std::vector<std::pair<ReaderId, ItemId>> pending_;  // the newest last
};

}  // namespace freshet::readers
