// Why an item is recommended. The first that is true of: like something they did, by an author they
// liked, new in a tag they liked, in their interests, rising or new; of what fills a page up
// instead of the last two: new, or simply more.
#pragma once

#include <optional>

#include "core/recommend/recommendations.h"

namespace freshet::recommend {

class ReasonBuilder {
 public:
  // All arguments must outlive this. What trends less than `trend` is not where it is for that.
  ReasonBuilder(const CandidateSet& suggestions, const readers::ReaderState& state, UnixSeconds now,
              double min_trend = 0);

  // `because`: what speaks for it; `named`: the card of the item which that names. What is hidden
  // is not named.
  readers::Reason reason(const RankedCandidate& ranked, const std::optional<Attribution>& attribution,
                         const items::ItemCard* attributed_card) const;
  // Of what the search index had.
  readers::Reason recalled_reason(const feed::Candidate& candidate, const items::ItemCard& card) const;

 private:
  readers::Reason metadata_reason(const ItemMetadata& metadata, readers::Reason::Kind fallback) const;
  readers::LikedSet collect_liked() const;

  const CandidateSet& suggestions_;
  const readers::ReaderState& state_;
  const UnixSeconds now_;
  const double min_trend_;
  mutable std::optional<readers::LikedSet> liked_;  // when it was asked for
};

}  // namespace freshet::recommend
