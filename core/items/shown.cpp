#include "core/items/shown.h"

#include <algorithm>
#include <iterator>
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
  for (auto from = counts_.begin(); from != counts_.end();) {
    const auto left = std::distance(from, counts_.end());
    const auto to = std::next(from, std::min<std::ptrdiff_t>(left, kAtOnce));
    out.script(scripts::kShown);
    for (auto at = from; at != to; ++at) out.key(keys_.article(at->first.view()));
    for (auto at = from; at != to; ++at) out.arg(at->second);
    from = to;
  }
  counts_.clear();
  deferred_.post(std::move(out));
}

}  // namespace freshet::items
