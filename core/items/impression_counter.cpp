#include "core/items/impression_counter.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/redis/scripts.h"

namespace freshet::items {

ImpressionCounter::ImpressionCounter(redis::WriteQueue& write_queue, redis::Keys keys, redis::RunAfter after)
    : write_queue_(write_queue),
      keys_(std::move(keys)),
      timer_(std::move(after), kFlushInterval, [this] { flush(); }) {}

void ImpressionCounter::add(std::span<const ItemId> items) {
  for (const ItemId& item : items) ++counts_[item];
  total_ += items.size();
  if (counts_.size() >= kMaxItems) return flush();
  if (!counts_.empty()) timer_.start();
}

void ImpressionCounter::flush() {
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
      const auto to = from + std::min<std::ptrdiff_t>(counts.end() - from, kItemsPerCall);
      out.script(scripts::kImpressions);
      for (auto at = from; at != to; ++at) out.key(at->first);
      for (auto at = from; at != to; ++at) out.arg(at->second);
      from = to;
    }
  }
  counts_.clear();
  write_queue_.post(std::move(out));
}

}  // namespace freshet::items
