// What one visitor added to the counters of items, and taking it back: for visitors who turn out to
// be a fraud. Workers sum up what their events added, and once a second note it in
// hot:added:{visitor}, for limits.contribution_ttl after the visitor's last new article; with the network
// that its last event came from, and how many did not count as a visitor for limits.uv_per_network.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/base/ids.h"
#include "core/config/settings.h"
#include "core/hot/ports.h"
#include "core/redis/write_queue.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::hot {

struct Contribution {
  std::int64_t pv = 0, uv = 0, dwell_ms = 0;  // uv: as many as the HyperLogLog's estimate rose by
  std::int64_t views = 0, first_views = 0;    // counted views; those that were a day's first
  double views_score = 0;
  Contribution& operator+=(const Contribution& other);
};

struct ItemContribution {
  ItemId item;
  Contribution contribution;
};

// Of a worker: what visitors added since it was last written, kEvery after the first of it or when
// it is of kMost visitors and articles. What a killed worker had not written is not remembered.
class ContributionBuffer {
 public:
  static constexpr milliseconds kFlushInterval{1000};
  static constexpr std::size_t kMaxEntries = 1000;
  using BatchIdGenerator = std::function<std::string()>;  // of which no 8 bytes come twice

  // All must outlive this. Nothing is kept when limits.contribution_ttl is 0.
  ContributionBuffer(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys, BatchIdGenerator new_batch_id,
                redis::RunAfter after = {});
  // Of nobody (an empty id) and of nothing is nothing kept.
  void add(const VisitorId& visitor, const EventAdmission& admission, const ItemId& item, const Contribution& contribution);
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
    std::int64_t uncounted_events = 0;
    std::unordered_map<std::string, Contribution> contributions;
  };
  using VisitorMap = std::unordered_map<std::string, VisitorEntry>;
  // A call for these, whose keys may share one.
  void append(redis::Pipeline& out, std::span<const VisitorMap::value_type* const> visitors) const;

  VisitorMap visitors_;
  std::size_t pending_ = 0;  // of a visitor and an article each
};

// The fields of a hot:added:{visitor} as HGETALL answers them, by item; items with the most page
// views and views first. What is no field of an item is left out.
std::vector<ItemContribution> parse_contributions(const redis::Reply& hash);
// Of the same.
struct VisitorOrigin {
  std::string network;      // as http::Identity::network_of; empty: none, or the site itself
  std::int64_t uncounted_events = 0;  // events that did not count as a visitor for limits.uv_per_network
};
VisitorOrigin parse_visitor_origin(const redis::Reply& hash);

// 1 RTT. Empty: nothing is remembered of this visitor.
Task<Result<std::vector<ItemContribution>>> read_contributions(redis::Redis& redis, const redis::Keys& keys,
                                            std::string_view visitor);

// Subtracts what the visitor added to these items and places them anew; an item that nobody else
// opened leaves the ranks. Each item only once: what an error ended is gone on with by the same
// call again. Lists are built anew from the next request on. What was taken back of each. 6 RTT
// for every 100 items, and 1. Errors: Redis'; kConflict "write_conflict" when an item, or what is
// remembered of it, changes again and again between two round trips.
Task<Result<std::vector<ItemContribution>>> revert_contributions(redis::Redis& redis, const Settings& settings,
                                             const redis::Keys& keys, std::string_view visitor,
                                             const std::vector<ItemId>& items);

}  // namespace freshet::hot
