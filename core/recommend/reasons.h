// Why an item is recommended. The first that is true of: like something they did, by an author they
// liked, new in a tag they liked, in their interests, rising or new; of what fills a page up
// instead of the last two: new, or simply more.
#pragma once

#include <optional>

#include "core/recommend/recommendations.h"

namespace freshet::recommend {

class ReasonMaker {
 public:
  // All arguments must outlive this. What trends less than `trend` is not where it is for that.
  ReasonMaker(const Suggestions& suggestions, const readers::ReaderState& state, UnixSeconds now,
              double trend = 0);

  // `because`: what speaks for it; `named`: the card of the item which that names. What is hidden
  // is not named.
  readers::Reason reason(const Ranked& ranked, const std::optional<Because>& because,
                         const items::ItemCard* named) const;
  // Of what the search index had.
  readers::Reason of_recalled(const feed::Candidate& candidate, const items::ItemCard& card) const;

 private:
  readers::Reason of_facts(const Facts& facts, readers::Reason::Kind otherwise) const;
  readers::LikedSet liked() const;

  const Suggestions& suggestions_;
  const readers::ReaderState& state_;
  const UnixSeconds now_;
  const double trend_;
  mutable std::optional<readers::LikedSet> liked_;  // when it was asked for
};

}  // namespace freshet::recommend
