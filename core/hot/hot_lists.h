// Hot lists as readers get them: from this worker's snapshot, else from the list cached in Redis,
// else built from the ranks.
//
// One process rebuilds a list, at most once in a time slice (the store's lock); the others serve
// what there is. A snapshot is a copy of the list of Redis, never a list of this worker's own, so
// workers do not disagree for longer than a snapshot lives. When an item is hidden every worker is
// told (drop()) and no list that may show it is served any more, unless Redis is away.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/hot/ports.h"
#include "core/items/card_cache.h"

namespace freshet::hot {

inline constexpr std::size_t kMaxListSize = 100;  // a list holds so many; a request's limit cuts it

// One list, rendered. Immutable, shared by the replies that are being sent.
class HotList {
 public:
  // `json` is an array with one element a line, as render() writes it.
  explicit HotList(std::string json);
  // The first `limit` elements as a JSON array.
  std::string first(std::size_t limit) const;
  std::size_t size() const { return ends_.size(); }
  // Changes whenever the content does. Quoted, with the limit in it: an HTTP entity tag.
  std::string etag(std::size_t limit) const;

 private:
  std::string json_;
  std::vector<std::size_t> ends_;  // one past each element
  std::uint64_t hash_;
};

struct ListCounters {
  std::uint64_t hits = 0;    // answered from the snapshot
  std::uint64_t misses = 0;  // asked of Redis, or waited for another request that did
};

struct ServedList {
  std::shared_ptr<const HotList> list;
  bool degraded = false;  // Redis is away: the last snapshot, or an empty list
};

struct ListEntry {
  ItemId item;
  double score = 0;
  items::SharedCard card;  // null: nothing is known
};
// [{"id","score","title"?,"url"?,"author"?,"tags"?,"published_at"?,"age"?}, …], one element a line.
// The age is that of the last whole minute before `at`, or 0: with seconds, or a minute of each
// item's own, it would make another list of it every time, and another ETag.
std::string render(const std::vector<ListEntry>& items, UnixSeconds at);

class HotLists {
 public:
  using Clock = std::chrono::steady_clock;
  HotLists(HotStore& hot, items::CardCache& cards, const Settings& settings);

  // No round trip while the snapshot is fresh (list.worker_ttl), or while another request of this
  // worker refreshes it; else 1 RTT, and for the one process that rebuilds a few more (the walk
  // down the rank, at most 100 items' cards). `query` must live until the task has ended.
  Task<Result<ServedList>> get(const ListQuery& query, Clock::time_point now);
  // How a list of a model with a base will stand at `at` if nobody comes. Never cached. At least 2
  // RTT.
  Task<Result<ServedList>> build_at(const ListQuery& query, UnixSeconds at);
  // The last copy, for a request that has no time left: degraded. Null when there is none, or one
  // that may show what was hidden meanwhile.
  std::shared_ptr<const HotList> stale_copy(const ListQuery& query) const;
  const ListCounters& counters() const { return counters_; }
  // An item was hidden, deleted or re-dated somewhere: `lost` false. Messages may have been missed:
  // `lost` true.
  void invalidate(bool messages_lost);

 private:
  struct Snapshot {
    std::shared_ptr<const HotList> list;
    Clock::time_point taken_at;
    Clock::time_point fresh_until;  // fresh before it
    bool usable = true;       // false: may show a hidden item; only for when Redis is away
    bool refreshing = false;
    std::vector<AsyncEvent<int>*> waiters;  // requests that found nothing to serve while somebody was refreshing
  };
  class RefreshGuard;

  Task<Result<ServedList>> refresh(const ListQuery& query, Clock::time_point now);
  Task<Result<std::string>> build(const ListQuery& query, UnixSeconds at);
  Task<Result<std::vector<ScoredItem>>> scan_rank(const ListQuery& query);
  Task<Result<std::vector<ScoredItem>>> scan_buckets(const ListQuery& query, UnixSeconds now);
  std::shared_ptr<const HotList> store_snapshot(const ListQuery& query, std::string json, Clock::time_point now,
                                      std::optional<milliseconds> expires_in, std::uint64_t generation);
  Result<ServedList> serve_stale(const ListQuery& query, const Error& error) const;
  void evict_snapshot();

  HotStore& hot_;
  items::CardCache& cards_;
  const Settings& settings_;
  std::map<ListQuery, Snapshot> snapshots_;
  ListCounters counters_;
  std::uint64_t generation_ = 0;  // of drops: what was read before one is not kept as usable
};

}  // namespace freshet::hot
