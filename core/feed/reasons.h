// Why an item is recommended, in the reader's own terms: an item they liked, a tag, an author. The first that
// is true of: like something they did, by an author they liked, new in a tag they liked, rising, new.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_set>

#include "core/feed/recommendations.h"

namespace freshet::feed {

class ReasonMaker {
 public:
  // All arguments must outlive this.
  ReasonMaker(const Suggestions& suggestions, const ReaderState& state, UnixSeconds now);

  // `because`: what speaks for it; `named`: the card of the item which that names. What is hidden is not
  // named.
  Reason reason(const Suggestion& suggestion, const std::optional<Because>& because,
                const ItemCard* named) const;

 private:
  Reason of_facts(const Suggestion& suggestion) const;

  const Suggestions& suggestions_;
  const UnixSeconds now_;
  std::unordered_set<std::string_view> liked_tags_, liked_authors_;
};

}  // namespace freshet::feed
