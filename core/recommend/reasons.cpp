#include "core/recommend/reasons.h"

namespace freshet::recommend {
namespace {

using readers::Reason;

// An event must give at least this share of an item's affinity to be named for it, unless affinity
// is why the item is there: then the event that gives most is named.
constexpr double kLeastShare = 0.1;

}  // namespace

ReasonMaker::ReasonMaker(const Suggestions& suggestions, const readers::ReaderState& state, UnixSeconds now,
                         double trend)
    : suggestions_(suggestions), state_(state), now_(now), trend_(trend) {}

readers::LikedSet ReasonMaker::liked() const {
  std::vector<std::string_view> ids;
  for (const readers::InteractionRecord& each : state_.interactions) {
    if (each.kind != readers::Interaction::kView) ids.push_back(each.item.view());
  }
  std::vector<std::uint32_t> items(ids.size());
  suggestions_.find_all(ids, items);
  readers::LikedSet out;
  Facts facts;
  for (const std::uint32_t item : items) {
    if (item == model::kNone) continue;
    suggestions_.facts(item, facts);
    out.add(facts.author, facts.tags);
  }
  return out;
}

Reason ReasonMaker::reason(const Ranked& ranked, const std::optional<Because>& because,
                           const items::ItemCard* named) const {
  const bool personal = ranked.affinity > 0 &&
                        (ranked.source == Source::kAffinity || ranked.discovery || ranked.trend < trend_);
  const bool nameable = because && named != nullptr && named->known && !named->is_hidden_at(now_);
  if (nameable && (personal || because->share >= kLeastShare))
    return {Reason::Kind::kLike, because->item, named->title, because->kind, {}};
  Reason::Kind otherwise = ranked.points > 0 ? Reason::Kind::kRising : Reason::Kind::kNew;
  if (personal) otherwise = Reason::Kind::kMatch;
  return of_facts(suggestions_.facts(ranked.item), otherwise);
}

Reason ReasonMaker::of_recalled(const feed::Candidate& candidate, const items::ItemCard& card) const {
  const Facts facts{card.title, card.author, {card.tags.begin(), card.tags.end()}, candidate.published_at};
  if (candidate.score > 0) return of_facts(facts, Reason::Kind::kMatch);
  return of_facts(facts,
                  now_ - facts.published < readers::kNewItemAge ? Reason::Kind::kNew : Reason::Kind::kMore);
}

Reason ReasonMaker::of_facts(const Facts& facts, Reason::Kind otherwise) const {
  if (!liked_) liked_ = liked();
  return liked_->reason(facts.author, facts.tags, now_ - facts.published, otherwise);
}

}  // namespace freshet::recommend
