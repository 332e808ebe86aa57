// Copies what was read after each item from the database to Redis, where `similar` reads it.
#pragma once

#include <chrono>
#include <set>
#include <vector>

#include "core/base/ids.h"
#include "core/database/database.h"
#include "core/recorder/batch.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"

namespace freshet::recorder {

class CovisitPublisher {
 public:
  static constexpr std::chrono::seconds kInterval{10};
  // Remembers the items of pairs that were written to the database.
  void add(const std::vector<ViewCounts>& written);
  // True if items wait, and were not published in the last kInterval.
  bool is_due() const { return !changed_.empty() && Clock::now() >= due_; }
  // Writes the pairs that have enough reads (Database::covisits()), for each remembered item. A
  // crash loses the remembered items; an item's next pair publishes its whole list. After an error,
  // repeat the call. 1 RTT per hundred items.
  Result<void> publish(redis::BlockingRedis& redis, const redis::Keys& keys, database::Database& database);

 private:
  using Clock = std::chrono::steady_clock;
  std::set<ItemId> changed_;
  Clock::time_point due_{};
};

}  // namespace freshet::recorder
