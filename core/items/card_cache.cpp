#include "core/items/card_cache.h"

#include <algorithm>
#include <iterator>

namespace freshet::items {
namespace {

// The list node, the index node and the shared card, including malloc overhead.
constexpr std::size_t kFixedBytes = 372;

std::size_t heap_bytes(const std::string& text) {
  constexpr std::size_t kInlineCapacity = 15;  // capacity of std::string's inline buffer
  return text.size() > kInlineCapacity ? text.capacity() + 16 : 0;
}

std::size_t entry_bytes(const ItemId& item, const ItemCard& card) {
  std::size_t out = kFixedBytes + heap_bytes(item.str()) + heap_bytes(card.title) + heap_bytes(card.url) +
                    heap_bytes(card.author) + heap_bytes(card.author_id) + heap_bytes(card.json) +
                    card.tags.capacity() * sizeof(std::string);
  for (const std::string& tag : card.tags) out += heap_bytes(tag);
  return out;
}

}  // namespace

CardCache::CardCache(ItemStore& store, std::int64_t bytes, std::function<Clock::time_point()> now)
    : store_(store), max_bytes_(static_cast<std::size_t>(bytes)), now_(std::move(now)) {}

Task<Result<std::vector<SharedCard>>> CardCache::get(const std::vector<ItemId>& items) {
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
  const Revision as_of = revision_;
  FRESHET_CO_TRY(cards, co_await store_.cards(missing));
  counters_.misses += missing.size();
  auto next = cards->begin();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (out[i]) continue;
    out[i] = std::make_shared<const ItemCard>(std::move(*next++));
    insert(items[i], out[i], as_of, now);
  }
  co_return out;
}

std::vector<ItemId> CardCache::missing(const std::vector<ItemId>& items, std::size_t limit) const {
  const auto now = now_();
  std::vector<ItemId> out;
  for (std::size_t i = 0; i < std::min(limit, items.size()); ++i) {
    const auto found = by_item_.find(items[i].view());
    if (found == by_item_.end() || !is_fresh(*found->second, now)) out.push_back(items[i]);
  }
  return out;
}

void CardCache::insert(const std::vector<ItemId>& items, std::vector<ItemCard> cards, Revision as_of) {
  const auto now = now_();
  const std::size_t count = std::min(items.size(), cards.size());
  counters_.misses += count;
  for (std::size_t i = 0; i < count; ++i)
    insert(items[i], std::make_shared<const ItemCard>(std::move(cards[i])), as_of, now);
}

// --- invalidation

CardCache::Revision& CardCache::last_invalidation(const ItemId& item) {
  return invalidated_[std::hash<ItemId>()(item) % invalidated_.size()];
}

void CardCache::invalidate(const ItemId& item) {
  last_invalidation(item) = ++revision_;
  const auto found = by_item_.find(item.view());
  if (found != by_item_.end()) erase(found->second);
}

void CardCache::invalidate_all() {
  all_invalidated_ = ++revision_;
  by_item_.clear();
  lru_.clear();
  counters_.bytes = 0;
}

// --- storage

SharedCard CardCache::find(const ItemId& item, Clock::time_point now) {
  const auto found = by_item_.find(item.view());
  if (found == by_item_.end() || !is_fresh(*found->second, now)) return nullptr;
  lru_.splice(lru_.begin(), lru_, found->second);
  return found->second->card;
}

void CardCache::insert(const ItemId& item, SharedCard card, Revision as_of, Clock::time_point read_at) {
  if (as_of < all_invalidated_ || as_of < last_invalidation(item)) return;
  if (const auto found = by_item_.find(item.view()); found != by_item_.end()) erase(found->second);
  const std::size_t bytes = entry_bytes(item, *card);
  lru_.push_front({item, std::move(card), read_at, bytes});
  by_item_.emplace(lru_.front().item.view(), lru_.begin());
  counters_.bytes += bytes;
  while (counters_.bytes > max_bytes_) erase(std::prev(lru_.end()));
}

void CardCache::erase(LruList::iterator entry) {
  counters_.bytes -= entry->bytes;
  by_item_.erase(entry->item.view());
  lru_.erase(entry);
}

std::optional<Invalidation> parse_invalidation(std::string_view message) {
  if (message == "all") return Invalidation{};
  const std::string_view kind = message.substr(0, message.find(' '));
  if (kind != "card" && kind != "list") return std::nullopt;
  auto item = ItemId::parse(message.substr(std::min(message.size(), kind.size() + 1)), "id");
  if (!item) return std::nullopt;
  return Invalidation{std::move(*item), kind == "list"};
}

}  // namespace freshet::items
