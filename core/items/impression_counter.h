// How often items were shown: the field `shown` of hot:article:{id}. Summed up in the worker and
// written behind the pages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/redis/write_queue.h"
#include "core/redis/keys.h"

namespace freshet::items {

class ImpressionCounter {
 public:
  static constexpr milliseconds kFlushInterval{1000};
  static constexpr std::size_t kMaxItems = 8192;   // items
  static constexpr std::size_t kItemsPerCall = 250;  // of a command

  // `deferred` must outlive this.
  ImpressionCounter(redis::WriteQueue& write_queue, redis::Keys keys, redis::RunAfter after = {});
  // Once more of each. No round trip; written kEvery after the first that waits, or when kMost
  // items wait: one command for each kAtOnce, one inner one for each item. Lost with the process,
  // or when Redis is away.
  void add(std::span<const ItemId> items);
  void flush();
  std::size_t pending() const { return counts_.size(); }  // items
  std::uint64_t total() const { return total_; }          // ever added, repetitions counted

 private:
  redis::WriteQueue& write_queue_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  std::unordered_map<ItemId, std::int64_t> counts_;
  std::uint64_t total_ = 0;
};

}  // namespace freshet::items
