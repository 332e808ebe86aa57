// What pages show of items, kept by a worker for a few seconds, so that a page of well-known items needs no
// round trip for them. Who is hidden is not decided here: the scripts that hand items out know at once.
#pragma once

#include <chrono>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/async/task.h"
#include "core/base/result.h"
#include "core/base/time.h"
#include "core/items/ports.h"

namespace freshet::items {

using SharedCard = std::shared_ptr<const ItemCard>;

class CardCache {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t kMostCards = 2048;  // up to twice as many live: 1.5 MiB

  explicit CardCache(milliseconds ttl) : ttl_(ttl) {}

  // Null when it is not there or too old.
  SharedCard find(const ItemId& item, Clock::time_point now) const {
    for (const Cards* cards : {&young_, &old_}) {
      const auto at = cards->find(item);
      if (at != cards->end() && now - at->second.read < ttl_) return at->second.card;
    }
    return nullptr;
  }
  // Two generations instead of a list of uses: when the young one is full the old one goes.
  void put(const ItemId& item, SharedCard card, Clock::time_point now) {
    if (young_.size() >= kMostCards) old_ = std::exchange(young_, {});
    young_.insert_or_assign(item, Entry{std::move(card), now});
  }
  void clear() {
    young_.clear();
    old_.clear();
  }

 private:
  struct Entry {
    SharedCard card;
    Clock::time_point read;
  };
  using Cards = std::unordered_map<ItemId, Entry>;
  const milliseconds ttl_;
  Cards young_, old_;
};

// The card of each, in order: from the cache, and those it does not have from the store, which it then keeps.
// No round trip when it has all, else 1. All arguments must live until it is done. Errors: the store's.
Task<Result<std::vector<SharedCard>>> cards_of(CardCache& cache, ItemStore& store,
                                               const std::vector<ItemId>& items);

}  // namespace freshet::items
