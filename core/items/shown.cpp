#include "core/items/shown.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/redis/scripts.h"

namespace freshet::items {

Shown::Shown(redis::WriteQueue& deferred, redis::Keys keys, redis::RunAfter after)
    : deferred_(deferred), keys_(std::move(keys)), timer_(std::move(after), kEvery, [this] { flush(); }) {}

void Shown::add(std::span<const ItemId> items) {
  for (const ItemId& item : items) ++counts_[item];
  total_ += items.size();
  if (counts_.size() >= kMost) return flush();
  if (!counts_.empty()) timer_.start();
}

void Shown::flush() {
  if (counts_.empty()) return;
  std::map<unsigned, std::vector<std::pair<std::string, std::int64_t>>> calls;
  for (const auto& [item, count] : counts_) {
    std::string key = keys_.article(item.view());
    const unsigned call = keys_.slot_or_zero(key);
    calls[call].emplace_back(std::move(key), count);
  }
  redis::Pipeline out;
  for (const auto& [call, counts] : calls) {
    for (auto from = counts.begin(); from != counts.end();) {
      const auto to = from + std::min<std::ptrdiff_t>(counts.end() - from, kAtOnce);
      out.script(scripts::kShown);
      for (auto at = from; at != to; ++at) out.key(at->first);
      for (auto at = from; at != to; ++at) out.arg(at->second);
      from = to;
    }
  }
  counts_.clear();
  deferred_.post(std::move(out));
}

}  // namespace freshet::items
