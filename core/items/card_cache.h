// Per-worker cache of item cards (what pages show of an item), shared by lists, feed,
// recommendations and timelines, so that a page of popular items needs no round trip for them.
// Evicts the least recently used cards when full.
//
// A change of an item is published by id on the channel hot:epoch, which invalidates its card. All
// messages up to the last heartbeat() have arrived, so a card is at most kMaxStaleness old if
// either the card was read or the heartbeat was received within that time; otherwise the card is
// read again. A card that was read while its item changed is not stored.
//
// Embargoed, hidden and deleted items have cards too: check ItemCard::is_hidden_at() before showing
// one. So have unknown items; their first PUT invalidates the card.
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
  std::uint64_t hits = 0, misses = 0;  // cards served from memory; cards read from Redis
  std::uint64_t bytes = 0;             // memory used
};

class CardCache {
 public:
  using Clock = std::chrono::steady_clock;
  using Revision = std::uint64_t;  // number of invalidations so far
  static constexpr milliseconds kMaxStaleness{2000};

  // `store` must outlive this. `bytes`: memory limit; 0: caches nothing.
  CardCache(ItemStore& store, std::int64_t bytes, std::function<Clock::time_point()> now = Clock::now);

  // The card of each item, in order; never null. No round trip if all are cached, else 1. `items`
  // must outlive the task. Errors: the store's.
  Task<Result<std::vector<SharedCard>>> get(const std::vector<ItemId>& items);

  // For callers that read cards in the same pipeline as other data: missing() returns those of the
  // first `limit` items that must be read, and insert() stores the cards of `items`, which were
  // read after revision() was `as_of`.
  std::vector<ItemId> missing(const std::vector<ItemId>& items, std::size_t limit) const;
  void insert(const std::vector<ItemId>& items, std::vector<ItemCard> cards, Revision as_of);
  Revision revision() const { return revision_; }

  // All invalidations published up to then have arrived.
  void heartbeat(Clock::time_point time) { last_heartbeat_ = time; }
  void invalidate(const ItemId& item);
  void invalidate_all();  // messages may have been missed

  const CardCounters& counters() const { return counters_; }

 private:
  struct Entry {
    ItemId item;
    SharedCard card;
    Clock::time_point read_at;
    std::size_t bytes;
  };
  using LruList = std::list<Entry>;  // most recently used first
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
  std::unordered_map<std::string_view, LruList::iterator> by_item_;  // keys point into lru_
  Clock::time_point last_heartbeat_{};
  Revision revision_ = 0, all_invalidated_ = 0;
  std::array<Revision, 1024> invalidated_{};  // last invalidation of the items that share a slot
  CardCounters counters_;
};

// Parses a message of the channel hot:epoch: "card ID": the item's card has changed; "list ID": and
// lists that contain it are outdated; "all": all items and all lists. nullopt: some other message.
struct Invalidation {
  std::optional<ItemId> item;  // nullopt: all
  bool lists = true;
};
std::optional<Invalidation> parse_invalidation(std::string_view message);

}  // namespace freshet::items
