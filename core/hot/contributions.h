// Contributions of a visitor to item counters, or of all anonymous visitors of a network, so that
// fraud can be reverted.
//
// Workers sum up what each visitor's events added and write the sums to hot:added:{visitor} once a
// second. The entry expires limits.contribution_ttl after the visitor's last new article. It also
// holds the network of the visitor's last event.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/config/settings.h"
#include "core/hot/ports.h"
#include "core/hot/trending.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "core/redis/write_queue.h"

namespace freshet::hot {

struct Contribution {
  std::int64_t pv = 0, uv = 0, dwell_ms = 0;  // uv: the increase of the HyperLogLog's estimate
  std::int64_t views = 0, first_views = 0;    // counted views; those that were the visitor's first of the day
  double views_score = 0;
  // The article's version after the first of these events; each event has another.
  std::int64_t first_version = std::numeric_limits<std::int64_t>::max();
  TrendSums trend = no_trend();
  Contribution& operator+=(const Contribution& other);
};

struct ItemContribution {
  ItemId item;
  Contribution contribution;
};

// Per-worker buffer of visitors' contributions. Flushed kFlushInterval after the first entry or at
// kMaxEntries (visitor, article) pairs. Entries not yet flushed are lost if the worker is killed.
class ContributionBuffer {
 public:
  static constexpr milliseconds kFlushInterval{1000};
  static constexpr std::size_t kMaxEntries = 1000;
  using BatchIdGenerator = std::function<std::string()>;  // the first 8 bytes are unique

  // All references must outlive this. Records nothing when limits.contribution_ttl is 0.
  ContributionBuffer(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys,
                     BatchIdGenerator new_batch_id, redis::RunAfter after = {});
  // Ignores empty visitor ids and zero contributions.
  void add(const VisitorId& visitor, const std::string& network, const ItemId& item,
           const Contribution& contribution);
  void flush();
  std::size_t pending() const { return pending_; }

 private:
  redis::WriteQueue& write_queue_;
  const Settings& settings_;
  const redis::Keys keys_;
  const BatchIdGenerator new_batch_id_;
  redis::FlushTimer timer_;
  struct VisitorEntry {
    std::string network;
    std::unordered_map<std::string, Contribution> contributions;
  };
  using VisitorMap = std::unordered_map<std::string, VisitorEntry>;
  // Appends one script call for these visitors. Their keys must be allowed to share a call.
  void append(redis::Pipeline& out, std::span<const VisitorMap::value_type* const> visitors) const;

  VisitorMap visitors_;
  std::size_t pending_ = 0;  // (visitor, article) pairs
};

// Parses the HGETALL reply of hot:added:{visitor} into contributions by item, most page views and
// views first. Ignores fields that do not belong to an item.
std::vector<ItemContribution> parse_contributions(const redis::Reply& hash);
// Parses the network of the visitor's last event from the same reply: a pseudonym as in
// http::Identity; empty: unknown, or the internal server.
std::string_view parse_visitor_network(const redis::Reply& hash);

// Empty if nothing is recorded for this visitor. 1 RTT.
Task<Result<std::vector<ItemContribution>>> read_contributions(redis::Redis& redis, const redis::Keys& keys,
                                                               std::string_view visitor);

// Subtracts the visitor's contributions from these items and updates their ranks; an item without
// any other page view leaves the ranks. Lists are rebuilt from the next request on. Returns what
// this call subtracted from each item.
//
// Each contribution is subtracted once: after an error, repeat the call to resume. 5 RTT per 100
// items, plus 1. Errors: Redis errors; kConflict "write_conflict" if an item or its recorded
// contribution keeps changing between round trips.
Task<Result<std::vector<ItemContribution>>> revert_contributions(redis::Redis& redis,
                                                                 const Settings& settings,
                                                                 const redis::Keys& keys,
                                                                 std::string_view visitor,
                                                                 const std::vector<ItemId>& items);

}  // namespace freshet::hot
