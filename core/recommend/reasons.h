// Why an item is recommended, in the reader's own terms: an item they liked, a tag, an author. The
// first that is true of: like something they did, by an author they liked, new in a tag they liked,
// in their interests, rising or new; of what fills a page up instead of the last two: new, or
// simply more.
#pragma once

#include <optional>
#include <string_view>
#include <unordered_set>

#include "core/recommend/recommendations.h"

namespace freshet::recommend {

class ReasonMaker {
 public:
  // All arguments must outlive this. What trends less than `trend` is not where it is for that.
  ReasonMaker(const Suggestions& suggestions, const readers::ReaderState& state, UnixSeconds now,
              double trend = 0);

  // `because`: what speaks for it; `named`: the card of the item which that names. What is hidden
  // is not named.
  Reason reason(const Ranked& ranked, const std::optional<Because>& because,
                const items::ItemCard* named) const;
  // Of what the search index had.
  Reason of_recalled(const feed::Candidate& candidate, const items::ItemCard& card) const;

 private:
  Reason of_facts(const Facts& facts, Reason::Kind otherwise) const;

  const Suggestions& suggestions_;
  const UnixSeconds now_;
  const double trend_;
  std::unordered_set<std::string_view> liked_tags_, liked_authors_;
};

}  // namespace freshet::recommend
