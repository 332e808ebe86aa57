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
    : suggestions_(suggestions), now_(now), trend_(trend) {
  for (const readers::Done& each : state.done) {
    const auto index = suggestions.find(each.item.view());
    if (!index || each.kind == readers::Interaction::kView) continue;
    const Facts facts = suggestions.facts(*index);
    liked_.add(facts.author, facts.tags);
  }
}

Reason ReasonMaker::reason(const Ranked& ranked, const std::optional<Because>& because,
                           const items::ItemCard* named) const {
  const bool personal = ranked.affinity > 0 &&
                        (ranked.source == Source::kAffinity || ranked.discovery || ranked.trend < trend_);
  const bool nameable = because && named != nullptr && named->known && !named->dark(now_);
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
                  now_ - facts.published < readers::kNewFor ? Reason::Kind::kNew : Reason::Kind::kMore);
}

Reason ReasonMaker::of_facts(const Facts& facts, Reason::Kind otherwise) const {
  return liked_.reason(facts.author, facts.tags, now_ - facts.published, otherwise);
}

}  // namespace freshet::recommend
