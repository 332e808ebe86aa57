#include "core/feed/reasons.h"

#include <algorithm>
#include <unordered_map>

namespace freshet::feed {
namespace {

// An item is "new" in a reason up to this age.
constexpr seconds kNewFor{86400};
// An event must give at least this share of an item's affinity to be named for it.
constexpr double kLeastShare = 0.1;

}  // namespace

ReasonMaker::ReasonMaker(const Suggestions& suggestions, const ReaderState& state, UnixSeconds now)
    : suggestions_(suggestions), now_(now) {
  for (const Done& each : state.done) {
    const auto index = suggestions.find(each.item);
    if (!index || each.kind == rank::Interaction::kView) continue;
    const Facts facts = suggestions.facts(*index);
    liked_tags_.insert(facts.tags.begin(), facts.tags.end());
    if (!facts.author.empty()) liked_authors_.insert(facts.author);
  }
}

std::vector<ItemId> ReasonMaker::find(const std::vector<Recommendation>& items) {
  std::unordered_map<std::string_view, const Suggestion*> by_id;
  for (const Suggestion& each : suggestions_.all()) by_id.emplace(each.id, &each);
  std::vector<std::uint32_t> indexes;
  for (const Recommendation& each : items) {
    of_items_.push_back(by_id.at(each.id.view()));
    indexes.push_back(of_items_.back()->index);
  }
  because_ = suggestions_.because(indexes);
  std::vector<ItemId> named;
  for (const auto& each : because_) {
    if (each && std::find(named.begin(), named.end(), each->item) == named.end()) named.push_back(each->item);
  }
  return named;
}

void ReasonMaker::give(std::vector<Recommendation>& items, const std::vector<ItemId>& named,
                       const std::vector<SharedCard>& cards) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].reason = fallback(*of_items_[i]);
    if (!because_[i] || because_[i]->share < kLeastShare) continue;
    const auto at = std::find(named.begin(), named.end(), because_[i]->item);
    const SharedCard& card = cards[static_cast<std::size_t>(at - named.begin())];
    if (!card->known || card->hidden) continue;
    items[i].reason = {Reason::Kind::kLike, because_[i]->item, card->title, because_[i]->kind, {}};
  }
}

Reason ReasonMaker::fallback(const Suggestion& suggestion) const {
  Reason reason;
  const Facts facts = suggestions_.facts(suggestion.index);
  if (liked_authors_.contains(facts.author)) {
    reason.kind = Reason::Kind::kByAuthor;
    reason.name = std::string(facts.author);
    return reason;
  }
  const auto tag = std::find_if(facts.tags.begin(), facts.tags.end(),
                                [&](std::string_view each) { return liked_tags_.contains(each); });
  if (tag != facts.tags.end() && now_ - facts.published < kNewFor) {
    reason.kind = Reason::Kind::kNewInTag;
    reason.name = std::string(*tag);
    return reason;
  }
  reason.kind = suggestion.points > 0 ? Reason::Kind::kRising : Reason::Kind::kNew;
  return reason;
}

}  // namespace freshet::feed
