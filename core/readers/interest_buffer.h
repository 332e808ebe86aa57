// Per-worker buffer of readers' interests, from long reads. Written to Redis asynchronously.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
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
  static constexpr int kIntervalsPerReader = 4;  // a reader's interests are written at most once a second
  static constexpr std::size_t kReadersPerCall = 64;  // readers per script call
  static constexpr std::size_t kMaxItems = 2000;      // pending items of all readers

  // All references must outlive this.
  InterestBuffer(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys,
                 redis::RunAfter after = {});
  // Records a report on a page view. A dwell time of feed.interest_min_dwell or more makes the item
  // the reader's newest interest. Written within kFlushInterval, but at most once a second per
  // reader: up to 64 readers in one script call, with three inner commands each. No round trip.
  // Lost if the worker is killed or Redis is unavailable.
  void add(const ReaderId& reader, const ItemId& item, milliseconds dwell);
  // Writes all pending interests.
  void flush();
  std::size_t pending() const { return pending_; }  // items

 private:
  struct Reader {
    std::vector<std::string> items;        // newest last
    std::int64_t write_from_interval = 0;  // the first in which they may be written
  };
  using ReaderMap = std::unordered_map<std::string, Reader>;
  void end_interval();
  void write(const std::vector<ReaderMap::value_type*>& readers);

  redis::WriteQueue& write_queue_;
  const Settings& settings_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;  // runs while there are readers
  ReaderMap readers_;        // with pending items, or written within the last second
  std::size_t pending_ = 0;
  std::int64_t interval_ = 0;  // number of the current one
};

}  // namespace freshet::readers
