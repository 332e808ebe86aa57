#include "core/items/view_count_buffer.h"

#include <fmt/format.h>

#include "core/redis/scripts.h"

namespace freshet::items {

ViewCountBuffer::ViewCountBuffer(redis::WriteQueue& write_queue, redis::Keys keys, redis::RunAfter after)
    : write_queue_(write_queue),
      keys_(std::move(keys)),
      timer_(std::move(after), kFlushInterval, [this] { flush(); }) {}

void ViewCountBuffer::add(const ItemId& item, UnixSeconds at, std::int64_t views) {
  if (views <= 0) return;
  const std::int64_t bucket = unix_s(at) / kViewBucket.count() * kViewBucket.count();
  counts_[{bucket, item.str()}] += views;
  if (counts_.size() >= kMaxEntries) return flush();
  timer_.start();
}

void ViewCountBuffer::flush() {
  if (counts_.empty()) return;
  std::string views;
  for (const auto& [key, count] : counts_) {
    fmt::format_to(std::back_inserter(views), "{}{}{}{}{}{}", views.empty() ? "" : "\x1f", key.first,
                   kIdSeparator, key.second, kIdSeparator, count);
  }
  redis::Pipeline out;
  out.script(scripts::kViewCounts).key(keys_.partition_for(counts_.begin()->first.second).stream());
  out.arg(keys_.per_partition(kMaxBacklog)).arg(views);
  counts_.clear();
  write_queue_.post(std::move(out));
}

}  // namespace freshet::items
