// Serves hot lists from this worker's snapshot, else from the list cached in Redis, else built from
// the ranks.
//
// One process rebuilds a list, at most once per list.rebuild_interval (the store's lock); until
// then the others serve the old list. A snapshot is always a copy of the list in Redis, never built
// for this worker alone, so workers disagree for at most a snapshot's lifetime. When an item is
// hidden, every worker is notified (invalidate()), and a list that may contain it is no longer
// served unless Redis is unavailable.
//
// A list that cannot be built within gateway.request_budget is not built again for
// kSlowListTtl, by any process; until then it is the old one or empty, and degraded.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/hot/ports.h"
#include "core/items/card_cache.h"

namespace freshet::hot {

inline constexpr std::size_t kMaxListSize = 100;  // elements of a stored list; a request's limit truncates it

// Lists with a tag or a window that a worker stores in Redis per list.ttl. Such a list has up to
// 35 KB, and clients choose which ones exist. Beyond the limit each worker builds its own.
inline constexpr std::size_t kMaxFilteredStores = 200;
inline constexpr std::string_view kOverBudget = "budget";  // error of a scan that ran out of time
// Error of a build whose rank was made with another half-life.
inline constexpr std::string_view kRankRebuilding = "rank_rebuilding";

// A rendered list. Immutable; shared by the responses being sent.
class HotList {
 public:
  // `json`: an array with one element per line, as render() writes it.
  explicit HotList(std::string json, bool below_floor = false);
  // The first `limit` elements as a JSON array.
  std::string first(std::size_t limit) const;
  std::size_t size() const { return ends_.size(); }
  // HTTP entity tag, quoted: a hash of the content and the limit.
  std::string etag(std::size_t limit) const;
  // No article reaches list.min_score, so these are the newest items, with a score of 0.
  bool below_floor() const { return below_floor_; }
  const std::string& json() const { return json_; }
  std::uint64_t hash() const { return hash_; }  // of json()

 private:
  std::string json_;
  bool below_floor_;
  std::vector<std::size_t> ends_;  // offset of the end of each element
  std::uint64_t hash_;
};

struct ListCounters {
  std::uint64_t hits = 0;    // served from the snapshot
  std::uint64_t misses = 0;  // read from Redis, or waited for another request that did
};

struct ServedList {
  std::shared_ptr<const HotList> list;
  // Redis is unavailable or the list takes too long to build: the last snapshot, or an empty list.
  bool degraded = false;
};

struct ListEntry {
  ItemId item;
  double score = 0;
  items::SharedCard card;  // null: the item is unknown
};
// [{"id","score","title"?,"url"?,"author"?,"tags"?,"published_at"?,"age"?}, …], one element per
// line. The age is that at the last full minute before `at`, at least 0: ages in seconds would
// change the list and its ETag with every request.
std::string render(const std::vector<ListEntry>& items, UnixSeconds at);

class HotLists {
 public:
  using Clock = std::chrono::steady_clock;
  // While `is_memory_scarce` returns true, lists with a tag or a window are not stored in Redis.
  HotLists(
      HotStore& hot, items::CardCache& cards, const Settings& settings,
      std::function<bool()> is_memory_scarce = [] { return false; });

  // No round trip while the snapshot is fresh (list.worker_ttl) or another request of this worker
  // is refreshing it; otherwise 1 RTT, and a few more for the one process that rebuilds (rank
  // pages, at most 100 cards). `query` must outlive the task.
  Task<Result<ServedList>> get(const ListQuery& query, Clock::time_point now);
  // Builds the list as it will be at `at` if no further events arrive; for models with a base score
  // and mode = current. Never cached. At least 2 RTT.
  Task<Result<ServedList>> build_at(const ListQuery& query, UnixSeconds at);
  // Returns the highest-scoring articles with mode = current. At least 2 RTT; 1 for a tag that no
  // item has.
  Task<Result<std::vector<ScoredItem>>> scan_buckets(const ListQuery& query, UnixSeconds now);
  // The last snapshot, for a request that is out of time; serve it as degraded. Null if there is
  // none or if it may contain an item that has been hidden.
  std::shared_ptr<const HotList> stale_copy(const ListQuery& query) const;
  const ListCounters& counters() const { return counters_; }
  // Call when an item was hidden, deleted or re-dated, or with `messages_lost` when invalidation
  // messages may have been missed.
  void invalidate(bool messages_lost);

 private:
  struct Snapshot {
    std::shared_ptr<const HotList> list;
    Clock::time_point taken_at;
    Clock::time_point fresh_until;  // fresh before it
    Clock::time_point retry_at;     // the last build failed, and is not repeated before it; 0: it did not
    bool usable = true;  // false: may contain a hidden item; served only while Redis is unavailable
    bool refreshing = false;
    std::vector<AsyncEvent<int>*> waiters;  // requests without a list to serve, waiting for the refresh
  };
  class RefreshGuard;

  Task<Result<ServedList>> refresh(const ListQuery& query, Clock::time_point now);
  struct BuiltList {
    std::string json;
    bool below_floor = false;
    bool has_pages = false;  // a rank was read in several pages
  };
  Task<Result<BuiltList>> build(const ListQuery& query, UnixSeconds at);
  // The best members with a score of at most `max_score`. Sets `has_pages` if they take several
  // pages.
  Task<Result<std::vector<ScoredItem>>> scan_rank(const ListQuery& query, double max_score, bool& has_pages);
  std::shared_ptr<const HotList> store_snapshot(const ListQuery& query, CachedList stored,
                                                Clock::time_point now, std::uint64_t generation);
  // The stale copy or an empty list, degraded.
  ServedList degraded_copy(const ListQuery& query) const;
  // The last snapshot or an empty list, degraded, if the error allows for it. While a rank is
  // rebuilt, without the items that are hidden now: 1 RTT, none if their cards are cached.
  Task<Result<ServedList>> serve_stale(const ListQuery& query, const Error& error);
  // Removes the items that are hidden now from the snapshot, if there is one.
  Task<Result<void>> drop_hidden_items(const ListQuery& query);
  void delay_retry(const ListQuery& query, Clock::time_point now, milliseconds delay);
  void evict_snapshot();
  // Returns whether the list may be stored in Redis at `now`, and counts it if so.
  bool admit_to_redis(const ListQuery& query, Clock::time_point now);

  HotStore& hot_;
  items::CardCache& cards_;
  const Settings& settings_;
  const std::function<bool()> is_memory_scarce_;
  std::deque<Clock::time_point> filtered_stores_;  // in the last list.ttl
  std::map<ListQuery, Snapshot> snapshots_;
  ListCounters counters_;
  std::uint64_t generation_ = 0;  // counts invalidations: a list read before one is not stored as usable
};

}  // namespace freshet::hot
