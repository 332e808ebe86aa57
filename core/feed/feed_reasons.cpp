#include "core/feed/feed_reasons.h"

#include <algorithm>

#include "core/base/utf8.h"

namespace freshet::feed {
namespace {

using readers::Reason;

std::vector<std::string> tag_keys(const items::ItemCard& card) {
  std::vector<std::string> out;
  for (const std::string& tag : card.tags) out.push_back(utf8::fold(tag));
  return out;
}

std::size_t common_tags(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return static_cast<std::size_t>(std::count_if(a.begin(), a.end(), [&](const std::string& key) {
    return std::find(b.begin(), b.end(), key) != b.end();
  }));
}

}  // namespace

FeedReasons::FeedReasons(const std::vector<Interest>& interests, const std::vector<items::SharedCard>& cards,
                         const std::unordered_set<ItemId>& trending, UnixSeconds now)
    : trending_(trending), now_(now) {
  for (std::size_t i = 0; i < std::min(interests.size(), cards.size()); ++i) {
    const items::ItemCard& card = *cards[i];
    if (!card.known || card.is_hidden_at(now)) continue;
    named_interests_.push_back({interests[i], card, tag_keys(card)});
    if (interests[i].interaction != readers::Interaction::kView)
      liked_.add(card.author_id, card.author, card.tags);
  }
}

Reason FeedReasons::reason(const ItemId& item, const items::ItemCard& card) const {
  const seconds age = now_ - card.visible_from;
  Reason::Kind fallback = age < readers::kNewItemAge ? Reason::Kind::kNew : Reason::Kind::kMore;
  if (trending_.contains(item)) fallback = Reason::Kind::kRising;
  Reason reason = liked_.reason(card.author_id, card.author, card.tags, age, fallback);
  if (reason.kind != fallback) return reason;
  const std::vector<std::string> keys =
      named_interests_.empty() ? std::vector<std::string>() : tag_keys(card);
  std::size_t max_common = 0;
  for (const NamedInterest& each : named_interests_) {
    const std::size_t common = common_tags(keys, each.tag_keys);
    if (common <= max_common || each.interest.item == item) continue;
    max_common = common;
    reason = {Reason::Kind::kLike, each.interest.item, each.card.title, each.interest.interaction, {}};
  }
  return reason;
}

}  // namespace freshet::feed
