// How often items were shown: the field `shown` of hot:article:{id}. Summed up in the worker and
// written behind the pages.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>

#include "core/base/ids.h"
#include "core/redis/deferred.h"
#include "core/redis/keys.h"

namespace freshet::items {

class Shown {
 public:
  static constexpr milliseconds kEvery{1000};
  static constexpr std::size_t kMost = 8192;   // items
  static constexpr std::size_t kAtOnce = 250;  // of a command

  // `deferred` must outlive this.
  Shown(redis::WriteQueue& deferred, redis::Keys keys, redis::RunAfter after = {});
  // Once more of each. No round trip; written kEvery after the first that waits, or when kMost
  // items wait: one command for each kAtOnce, one inner one for each item. Lost with the process,
  // or when Redis is away.
  void add(std::span<const ItemId> items);
  void flush();
  std::size_t waiting() const { return counts_.size(); }  // items
  std::uint64_t total() const { return total_; }          // ever added, repetitions counted

 private:
  redis::WriteQueue& deferred_;
  const redis::Keys keys_;
  redis::FlushTimer timer_;
  std::unordered_map<ItemId, std::int64_t> counts_;
  std::uint64_t total_ = 0;
};

}  // namespace freshet::items
