#include "core/items/card_cache.h"

#include <algorithm>
#include <iterator>

namespace freshet::items {
namespace {

// Of the list's node, the index' and the shared card, with what malloc adds to each.
constexpr std::size_t kFixedBytes = 340;

std::size_t heap_bytes(const std::string& text) {
  constexpr std::size_t kInside = 15;  // std::string has so many itself
  return text.size() > kInside ? text.capacity() + 16 : 0;
}

std::size_t bytes_of(const ItemId& item, const ItemCard& card) {
  std::size_t out = kFixedBytes + heap_bytes(item.str()) + heap_bytes(card.title) + heap_bytes(card.url) +
                    heap_bytes(card.author) + heap_bytes(card.json) +
                    card.tags.capacity() * sizeof(std::string);
  for (const std::string& tag : card.tags) out += heap_bytes(tag);
  return out;
}

}  // namespace

CardCache::CardCache(ItemStore& store, std::int64_t bytes, std::function<Clock::time_point()> now)
    : store_(store), most_(static_cast<std::size_t>(bytes)), now_(std::move(now)) {}

Task<Result<std::vector<SharedCard>>> CardCache::of(const std::vector<ItemId>& items) {
  const auto now = now_();
  std::vector<SharedCard> out;
  std::vector<ItemId> missing;
  out.reserve(items.size());
  for (const ItemId& item : items) {
    out.push_back(find(item, now));
    if (!out.back()) missing.push_back(item);
  }
  counters_.hits += items.size() - missing.size();
  if (missing.empty()) co_return out;
  const Changes as_of = changes_;
  FRESHET_CO_TRY(cards, co_await store_.cards(missing));
  counters_.misses += missing.size();
  auto next = cards->begin();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (out[i]) continue;
    out[i] = std::make_shared<const ItemCard>(std::move(*next++));
    keep(items[i], out[i], as_of, now);
  }
  co_return out;
}

std::vector<ItemId> CardCache::missing(const std::vector<ItemId>& items, std::size_t most) const {
  const auto now = now_();
  std::vector<ItemId> out;
  for (std::size_t i = 0; i < std::min(most, items.size()); ++i) {
    const auto found = by_item_.find(items[i].view());
    if (found == by_item_.end() || !believed(*found->second, now)) out.push_back(items[i]);
  }
  return out;
}

void CardCache::keep(const std::vector<ItemId>& items, std::vector<ItemCard> cards, Changes as_of) {
  const auto now = now_();
  const std::size_t count = std::min(items.size(), cards.size());
  counters_.misses += count;
  for (std::size_t i = 0; i < count; ++i)
    keep(items[i], std::make_shared<const ItemCard>(std::move(cards[i])), as_of, now);
}

// --- announcements

CardCache::Changes& CardCache::last_change(const ItemId& item) {
  return changed_[std::hash<ItemId>()(item) % changed_.size()];
}

void CardCache::forget(const ItemId& item) {
  last_change(item) = ++changes_;
  const auto found = by_item_.find(item.view());
  if (found != by_item_.end()) drop(found->second);
}

void CardCache::forget_all() {
  all_changed_ = ++changes_;
  by_item_.clear();
  uses_.clear();
  counters_.bytes = 0;
}

// --- what is kept

SharedCard CardCache::find(const ItemId& item, Clock::time_point now) {
  const auto found = by_item_.find(item.view());
  if (found == by_item_.end() || !believed(*found->second, now)) return nullptr;
  uses_.splice(uses_.begin(), uses_, found->second);
  return found->second->card;
}

void CardCache::keep(const ItemId& item, SharedCard card, Changes as_of, Clock::time_point read) {
  if (as_of < all_changed_ || as_of < last_change(item)) return;
  if (const auto found = by_item_.find(item.view()); found != by_item_.end()) drop(found->second);
  const std::size_t bytes = bytes_of(item, *card);
  uses_.push_front({item, std::move(card), read, bytes});
  by_item_.emplace(uses_.front().item.view(), uses_.begin());
  counters_.bytes += bytes;
  while (counters_.bytes > most_) drop(std::prev(uses_.end()));
}

void CardCache::drop(Uses::iterator kept) {
  counters_.bytes -= kept->bytes;
  by_item_.erase(kept->item.view());
  uses_.erase(kept);
}

std::optional<Announcement> announcement_of(std::string_view message) {
  if (message == "all") return Announcement{};
  const std::string_view word = message.substr(0, message.find(' '));
  if (word != "card" && word != "list") return std::nullopt;
  auto item = ItemId::parse(message.substr(std::min(message.size(), word.size() + 1)), "id");
  if (!item) return std::nullopt;
  return Announcement{std::move(*item), word == "list"};
}

}  // namespace freshet::items
