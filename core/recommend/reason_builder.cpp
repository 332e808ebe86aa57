#include "core/recommend/reason_builder.h"

namespace freshet::recommend {
namespace {

using readers::Reason;

// Smallest share of an item's affinity for which an event is named. If affinity is the reason why
// the item is listed, the top event is named whatever its share.
constexpr double kMinShare = 0.1;

}  // namespace

ReasonBuilder::ReasonBuilder(const CandidateSet& candidates, const readers::ReaderState& state,
                             UnixSeconds now, double min_trend)
    : candidates_(candidates), state_(state), now_(now), min_trend_(min_trend) {}

readers::LikedSet ReasonBuilder::collect_liked() const {
  std::vector<std::string_view> ids;
  for (const readers::InteractionRecord& each : state_.interactions) {
    if (each.kind != readers::Interaction::kView) ids.push_back(each.item.view());
  }
  std::vector<std::uint32_t> items(ids.size());
  candidates_.find_all(ids, items);
  readers::LikedSet out;
  ItemMetadata metadata;
  for (const std::uint32_t item : items) {
    if (item == model::kNoIndex) continue;
    candidates_.metadata(item, metadata);
    out.add(metadata.author_id, metadata.author, metadata.tags);
  }
  return out;
}

Reason ReasonBuilder::reason(const RankedCandidate& ranked, const std::optional<Attribution>& attribution,
                             const items::ItemCard* attributed_card) const {
  if (ranked.exploration) return {Reason::Kind::kNewHere, {}, {}, readers::Interaction::kView, {}};
  const bool personal = ranked.affinity > 0 && (ranked.source == CandidateSource::kAffinity ||
                                                ranked.discovery || ranked.trend < min_trend_);
  const bool can_attribute = attribution && attributed_card != nullptr && attributed_card->known &&
                             !attributed_card->is_hidden_at(now_);
  if (can_attribute && (personal || attribution->share >= kMinShare))
    return {Reason::Kind::kLike, attribution->item, attributed_card->title, attribution->kind, {}};
  Reason::Kind fallback = ranked.points > 0 ? Reason::Kind::kRising : Reason::Kind::kNew;
  if (personal) fallback = Reason::Kind::kMatch;
  return metadata_reason(candidates_.metadata(ranked.item), fallback);
}

Reason ReasonBuilder::recalled_reason(const feed::Candidate& candidate, const items::ItemCard& card) const {
  const ItemMetadata metadata{
      card.title, card.author, {card.tags.begin(), card.tags.end()}, candidate.published_at, card.author_id};
  if (candidate.score > 0) return metadata_reason(metadata, Reason::Kind::kMatch);
  return metadata_reason(
      metadata, now_ - metadata.published < readers::kNewItemAge ? Reason::Kind::kNew : Reason::Kind::kMore);
}

Reason ReasonBuilder::metadata_reason(const ItemMetadata& metadata, Reason::Kind fallback) const {
  if (!liked_) liked_ = collect_liked();
  return liked_->reason(metadata.author_id, metadata.author, metadata.tags, now_ - metadata.published,
                        fallback);
}

}  // namespace freshet::recommend
