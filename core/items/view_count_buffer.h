// Sums up counted views per item and five-minute bucket, and pairs of items that were read one
// after the other, without readers. Appends them to the stream for the recorder, which stores the
// views for `freshetctl tune` (view_counts in SQLite) and the pairs for similar items (covisits).
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
// item and a number of views for each bucket and item, all joined by kIdSeparator. kCovisitsField
// has the time of the pairs (Unix seconds), then two items and a count for each pair.
inline constexpr std::string_view kOpCounts = "counts", kCountsField = "views";
inline constexpr std::string_view kCovisitsField = "covisits";
inline constexpr seconds kViewBucket{300};

// Per-worker buffer. Flushed kFlushInterval after the first view or at kMaxEntries. Counts not yet
// flushed are lost with the worker. So are counts while Redis is unavailable, while kMaxBacklog
// entries wait for the recorder, and before a recorder has created the stream.
class ViewCountBuffer {
 public:
  static constexpr milliseconds kFlushInterval{1000};
  static constexpr std::size_t kMaxEntries = 500;      // (bucket, item) pairs, and pairs of items
  static constexpr std::int64_t kMaxBacklog = 10'000;  // entries, over all partitions

  // `write_queue` must outlive this.
  ViewCountBuffer(redis::WriteQueue& write_queue, redis::Keys keys, redis::RunAfter after = {});
  // Ignores counts of 0 or less. No round trip.
  void add(const ItemId& item, UnixSeconds at, std::int64_t views = 1);
  // Counts that a reader read `item` after `before`. No round trip.
  void add_covisit(const ItemId& before, const ItemId& item);
  // Appends what is pending as one entry.
  void flush();

 private:
  void start_or_flush();

  redis::WriteQueue& write_queue_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  std::map<std::pair<std::int64_t, std::string>, std::int64_t> counts_;  // by bucket and item
  std::map<std::pair<std::string, std::string>, std::int64_t> covisits_;
};

}  // namespace freshet::items
