#include "core/feed/feed_reasons.h"

#include <algorithm>

namespace freshet::feed {
namespace {

using readers::Reason;

std::size_t common_tags(const items::ItemCard& a, const items::ItemCard& b) {
  return static_cast<std::size_t>(std::count_if(a.tags.begin(), a.tags.end(), [&](const std::string& tag) {
    return std::find(b.tags.begin(), b.tags.end(), tag) != b.tags.end();
  }));
}

}  // namespace

FeedReasons::FeedReasons(const std::vector<Interest>& interests, const std::vector<items::SharedCard>& cards,
                         const std::unordered_set<ItemId>& trending, UnixSeconds now)
    : trending_(trending), now_(now) {
  for (std::size_t i = 0; i < std::min(interests.size(), cards.size()); ++i) {
    const items::ItemCard& card = *cards[i];
    if (!card.known || card.is_hidden_at(now)) continue;
    named_interests_.push_back({interests[i], card});
    if (interests[i].interaction != readers::Interaction::kView)
      liked_.add(card.author, {card.tags.begin(), card.tags.end()});
  }
}

Reason FeedReasons::reason(const ItemId& item, const items::ItemCard& card) const {
  const seconds age = now_ - card.visible_from;
  Reason::Kind fallback = age < readers::kNewItemAge ? Reason::Kind::kNew : Reason::Kind::kMore;
  if (trending_.contains(item)) fallback = Reason::Kind::kRising;
  Reason reason = liked_.reason(card.author, card.tags, age, fallback);
  if (reason.kind != fallback) return reason;
  std::size_t max_common = 0;
  for (const NamedInterest& each : named_interests_) {
    const std::size_t common = common_tags(card, each.card);
    if (common <= max_common || each.interest.item == item) continue;
    max_common = common;
    reason = {Reason::Kind::kLike, each.interest.item, each.card.title, each.interest.interaction, {}};
  }
  return reason;
}

}  // namespace freshet::feed
