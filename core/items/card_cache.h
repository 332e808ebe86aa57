// What is shown of items, in a worker's memory: one for lists, feed, recommendations and timelines,
// so that a page of well-known items needs no round trip for them. The least recently used leave
// when it is full.
//
// A change of an item is announced by id on the channel hot:epoch, and its card is forgotten. What
// is known of the channel says how far a card is believed: what was announced up to heard() has
// come, so a card that was read within kGap, or any when heard() is within kGap, is at most kGap
// behind. All others are read again. A card that was read while its item changed is not kept.
//
// Who is dated ahead, hidden or deleted has a card too: ItemCard::dark() is asked when it is shown.
// So has what was never put, until its put announces it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/async/task.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/items/ports.h"

namespace freshet::items {

using SharedCard = std::shared_ptr<const ItemCard>;

struct CardCounters {
  std::uint64_t hits = 0, misses = 0;  // cards from memory; cards read from Redis
  std::uint64_t bytes = 0;             // of what is kept
};

class CardCache {
 public:
  using Clock = std::chrono::steady_clock;
  using Revision = std::uint64_t;  // announcements so far
  static constexpr milliseconds kMaxStaleness{2000};

  // `store` must outlive this. `bytes` bounds what is kept; 0: nothing is.
  CardCache(ItemStore& store, std::int64_t bytes, std::function<Clock::time_point()> now = Clock::now);

  // The card of each, in order, never null. No round trip when it has all, else 1. `items` must
  // live until it is done. Errors: the store's.
  Task<Result<std::vector<SharedCard>>> get(const std::vector<ItemId>& items);

  // For who reads cards among other things: those of the first `most` that are not here; and, when
  // they have come, the cards of `items` as read after changes() was `as_of`.
  std::vector<ItemId> missing(const std::vector<ItemId>& items, std::size_t limit) const;
  void insert(const std::vector<ItemId>& items, std::vector<ItemCard> cards, Revision as_of);
  Revision revision() const { return revision_; }

  // Every announcement up to then has come.
  void heartbeat(Clock::time_point time) { last_heartbeat_ = time; }
  void invalidate(const ItemId& item);
  void invalidate_all();  // announcements may have been missed

  const CardCounters& counters() const { return counters_; }

 private:
  struct Entry {
    ItemId item;
    SharedCard card;
    Clock::time_point read_at;
    std::size_t bytes;
  };
  using LruList = std::list<Entry>;  // the latest first
  bool is_fresh(const Entry& entry, Clock::time_point now) const {
    return now - last_heartbeat_ <= kMaxStaleness || now - entry.read_at <= kMaxStaleness;
  }
  SharedCard find(const ItemId& item, Clock::time_point now);
  void insert(const ItemId& item, SharedCard card, Revision as_of, Clock::time_point read_at);
  void erase(LruList::iterator entry);
  Revision& last_invalidation(const ItemId& item);

  ItemStore& store_;
  const std::size_t max_bytes_;
  const std::function<Clock::time_point()> now_;
  LruList lru_;
  std::unordered_map<std::string_view, LruList::iterator> by_item_;  // names stand in uses_
  Clock::time_point last_heartbeat_{};
  Revision revision_ = 0, all_invalidated_ = 0;
  std::array<Revision, 1024> invalidated_{};  // the last of the items that share a place
  CardCounters counters_;
};

// What is said on hot:epoch: "card ID": what is shown of the item is other now; "list ID": and
// lists with it may be wrong; "all": of any item, and any list. nullopt: nothing of ours.
struct Invalidation {
  std::optional<ItemId> item;  // nullopt: all
  bool lists = true;
};
std::optional<Invalidation> parse_invalidation(std::string_view message);

}  // namespace freshet::items
