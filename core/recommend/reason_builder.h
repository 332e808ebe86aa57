// Chooses why an item is recommended. A position for exploration is "new here". Otherwise the first
// applicable reason wins: similar to something the reader did, by an author they liked, new in a
// tag they liked, matches their interests, rising, new. For items that fill up a page, the last two
// are replaced by: new, more to read.
#pragma once

#include <optional>

#include "core/recommend/recommendations.h"

namespace freshet::recommend {

class ReasonBuilder {
 public:
  // All arguments must outlive this. Items with a trend below `min_trend` are not explained as
  // rising.
  ReasonBuilder(const CandidateSet& candidates, const readers::ReaderState& state, UnixSeconds now,
                double min_trend = 0);

  // `attribution`: the reader's event that contributes most to the item. `attributed_card`: the
  // card of that event's item. Hidden items are never named.
  readers::Reason reason(const RankedCandidate& ranked, const std::optional<Attribution>& attribution,
                         const items::ItemCard* attributed_card) const;
  // Reason for an item found in the search index.
  readers::Reason recalled_reason(const feed::Candidate& candidate, const items::ItemCard& card) const;

 private:
  readers::Reason metadata_reason(const ItemMetadata& metadata, readers::Reason::Kind fallback) const;
  readers::LikedSet collect_liked() const;

  const CandidateSet& candidates_;
  const readers::ReaderState& state_;
  const UnixSeconds now_;
  const double min_trend_;
  mutable std::optional<readers::LikedSet> liked_;  // computed on first use
};

}  // namespace freshet::recommend
