// Why an item is in a feed. The first that is true of: it has the words searched for; by an author
// the reader liked; new in a tag they liked; like something they did; trending; new; or simply
// more.
#pragma once

#include <unordered_set>
#include <vector>

#include "core/feed/ports.h"
#include "core/items/card_cache.h"
#include "core/readers/reason.h"

namespace freshet::feed {

class FeedReasons {
 public:
  // `cards`: of `interests`, in order. What is hidden or not known is not named. All arguments must
  // outlive this.
  FeedReasons(const std::vector<Interest>& interests, const std::vector<items::SharedCard>& cards,
              const std::unordered_set<ItemId>& trending, UnixSeconds now);
  readers::Reason reason(const ItemId& item, const items::ItemCard& card) const;

 private:
  struct NamedInterest {
    const Interest& interest;
    const items::ItemCard& card;
  };
  std::vector<NamedInterest> named_interests_;
  readers::LikedSet liked_;
  const std::unordered_set<ItemId>& trending_;
  const UnixSeconds now_;
};

}  // namespace freshet::feed
