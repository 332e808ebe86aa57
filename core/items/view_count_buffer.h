// Sums up counted views per item and five-minute bucket, without readers, and appends them to the
// stream for the recorder, which stores them for `freshetctl tune` (view_counts in SQLite).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/redis/keys.h"
#include "core/redis/write_queue.h"

namespace freshet::items {

// An entry of the stream: op = kOpCounts, and in kCountsField a bucket's start (Unix seconds), an
// item and a number of views for each bucket and item, all joined by kIdSeparator.
inline constexpr std::string_view kOpCounts = "counts", kCountsField = "views";
inline constexpr seconds kViewBucket{300};

// Per-worker buffer. Flushed kFlushInterval after the first view or at kMaxEntries. Counts not yet
// flushed are lost with the worker. So are counts while Redis is unavailable, while kMaxBacklog
// entries wait for the recorder, and before a recorder has created the stream.
class ViewCountBuffer {
 public:
  static constexpr milliseconds kFlushInterval{1000};
  static constexpr std::size_t kMaxEntries = 500;      // (bucket, item) pairs
  static constexpr std::int64_t kMaxBacklog = 10'000;  // entries, over all partitions

  // `write_queue` must outlive this.
  ViewCountBuffer(redis::WriteQueue& write_queue, redis::Keys keys, redis::RunAfter after = {});
  // Ignores counts of 0 or less. No round trip.
  void add(const ItemId& item, UnixSeconds at, std::int64_t views = 1);
  // Appends what is pending as one entry.
  void flush();

 private:
  redis::WriteQueue& write_queue_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> counts_;  // by bucket and item
};

}  // namespace freshet::items
