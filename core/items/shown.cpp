#include "core/items/shown.h"

#include <utility>

#include "core/redis/scripts.h"

namespace freshet::items {

Shown::Shown(redis::Deferred& deferred, redis::Keys keys, redis::After after)
    : deferred_(deferred), keys_(std::move(keys)), timer_(std::move(after), kEvery, [this] { flush(); }) {}

void Shown::add(std::span<const ItemId> items) {
  for (const ItemId& item : items) ++counts_[item];
  total_ += items.size();
  if (counts_.size() >= kMost) return flush();
  if (!counts_.empty()) timer_.start();
}

void Shown::flush() {
  if (counts_.empty()) return;
  redis::Pipeline out;
  out.script(scripts::kShown);
  for (const auto& [item, count] : counts_) out.key(keys_.article(item.view()));
  for (const auto& [item, count] : counts_) out.arg(count);
  counts_.clear();
  deferred_.post(std::move(out));
}

}  // namespace freshet::items
