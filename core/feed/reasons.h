// Why an item is recommended, in the reader's own terms: an item they liked, a tag, an author. The first that
// is true of: like something they did, by an author they liked, new in a tag they liked, rising, new.
#pragma once

#include <optional>
#include <unordered_set>
#include <vector>

#include "core/feed/recommendations.h"

namespace freshet::feed {

class ReasonMaker {
 public:
  // All arguments must outlive this.
  ReasonMaker(const Suggestions& suggestions, const ReaderState& state, UnixSeconds now);

  // Finds what speaks for each of `items`; returns the reader's items that reasons want to name.
  std::vector<ItemId> find(const std::vector<Recommendation>& items);
  // Gives each its reason; `cards` are those of `named`: what is hidden is not named.
  void give(std::vector<Recommendation>& items, const std::vector<ItemId>& named,
            const std::vector<SharedCard>& cards);

 private:
  Reason fallback(const Suggestion& suggestion) const;

  const Suggestions& suggestions_;
  const UnixSeconds now_;
  std::unordered_set<std::string_view> liked_tags_, liked_authors_;
  std::vector<const Suggestion*> of_items_;  // as given to find()
  std::vector<std::optional<Because>> because_;
};

}  // namespace freshet::feed
