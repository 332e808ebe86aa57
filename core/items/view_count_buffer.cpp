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
  start_or_flush();
}

void ViewCountBuffer::add_covisit(const ItemId& before, const ItemId& item) {
  ++covisits_[{before.str(), item.str()}];
  start_or_flush();
}

void ViewCountBuffer::start_or_flush() {
  if (counts_.size() + covisits_.size() >= kMaxEntries) return flush();
  timer_.start();
}

void ViewCountBuffer::flush() {
  if (counts_.empty() && covisits_.empty()) return;
  std::string views;
  for (const auto& [key, count] : counts_) {
    fmt::format_to(std::back_inserter(views), "{}{}{}{}{}{}", views.empty() ? "" : "\x1f", key.first,
                   kIdSeparator, key.second, kIdSeparator, count);
  }
  std::string covisits = covisits_.empty() ? std::string() : std::to_string(unix_s(wall_now()));
  for (const auto& [pair, count] : covisits_) {
    for (const std::string_view word : {std::string_view(pair.first), std::string_view(pair.second)})
      (covisits += kIdSeparator) += word;
    (covisits += kIdSeparator) += std::to_string(count);
  }
  const std::string& any_item =
      counts_.empty() ? covisits_.begin()->first.first : counts_.begin()->first.second;
  redis::Pipeline out;
  out.script(scripts::kViewCounts).key(keys_.partition_for(any_item).stream());
  out.arg(keys_.per_partition(kMaxBacklog)).arg(views).arg(covisits);
  counts_.clear();
  covisits_.clear();
  write_queue_.post(std::move(out));
}

}  // namespace freshet::items
