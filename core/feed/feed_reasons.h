// Why an item is in a feed. The first reason that applies: matches the searched words; by an author
// the reader liked; new in a tag they liked; similar to something they interacted with; trending;
// new; or none of these ("more").
#pragma once

#include <unordered_set>
#include <vector>

#include "core/feed/ports.h"
#include "core/items/card_cache.h"
#include "core/readers/reason.h"

namespace freshet::feed {

class FeedReasons {
 public:
  // `cards` holds the cards of `interests`, in the same order. Hidden and unknown items are never
  // named in a reason. All arguments must outlive this.
  FeedReasons(const std::vector<Interest>& interests, const std::vector<items::SharedCard>& cards,
              const std::unordered_set<ItemId>& trending, UnixSeconds now);
  readers::Reason reason(const ItemId& item, const items::ItemCard& card) const;

 private:
  struct NamedInterest {
    const Interest& interest;
    const items::ItemCard& card;
    std::vector<std::string> tag_keys;
  };
  std::vector<NamedInterest> named_interests_;
  readers::LikedSet liked_;
  const std::unordered_set<ItemId>& trending_;
  const UnixSeconds now_;
};

}  // namespace freshet::feed
