#include "core/items/card_cache.h"

namespace freshet::items {

Task<Result<std::vector<SharedCard>>> cards_of(CardCache& cache, ItemStore& store,
                                               const std::vector<ItemId>& items) {
  const auto now = CardCache::Clock::now();
  std::vector<SharedCard> out;
  std::vector<ItemId> missing;
  out.reserve(items.size());
  for (const ItemId& item : items) {
    out.push_back(cache.find(item, now));
    if (!out.back()) missing.push_back(item);
  }
  if (missing.empty()) co_return out;
  FRESHET_CO_TRY(cards, co_await store.cards(missing));
  auto next = cards->begin();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (out[i]) continue;
    out[i] = std::make_shared<const ItemCard>(std::move(*next++));
    cache.put(items[i], out[i], now);
  }
  co_return out;
}

}  // namespace freshet::items
