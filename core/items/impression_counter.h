// Counts impressions of items, on pages of the feed and of recommendations: the field `shown` of
// hot:article:{id}. Summed up per worker and written asynchronously.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/redis/keys.h"
#include "core/redis/write_queue.h"

namespace freshet::items {

class ImpressionCounter {
 public:
  static constexpr milliseconds kFlushInterval{10000};
  static constexpr std::size_t kMaxItems = 8192;     // items
  static constexpr std::size_t kItemsPerCall = 250;  // per command

  // `write_queue` must outlive this.
  ImpressionCounter(redis::WriteQueue& write_queue, redis::Keys keys, redis::RunAfter after = {});
  // Counts one impression of each item. No round trip; flushed kFlushInterval after the first
  // pending impression or at kMaxItems items: one script call per kItemsPerCall, with one HINCRBY
  // per item. Pending impressions are lost with the process, or while Redis is unavailable.
  void add(std::span<const ItemId> items);
  void flush();
  std::size_t pending() const { return counts_.size(); }  // items
  std::uint64_t total() const { return total_; }          // since start, including repeated items

 private:
  redis::WriteQueue& write_queue_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  std::unordered_map<ItemId, std::int64_t> counts_;
  std::uint64_t total_ = 0;
};

}  // namespace freshet::items
