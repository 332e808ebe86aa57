#include "core/readers/interest_buffer.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/readers/reader_store.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
namespace {
constexpr seconds kTtlRenewalInterval{86400};  // a TTL may be this much out of date before it is renewed
}  // namespace

InterestBuffer::InterestBuffer(redis::WriteQueue& write_queue, const Settings& settings, redis::Keys keys,
                               redis::RunAfter after)
    : write_queue_(write_queue),
      settings_(settings),
      keys_(std::move(keys)),
      timer_(std::move(after), kFlushInterval, [this] { flush(); }) {}

void InterestBuffer::add(const ReaderId& reader, const ItemId& item, milliseconds dwell) {
  if (dwell < settings_.feed.interest_min_dwell) return;
  pending_.emplace_back(reader, item);
  if (pending_.size() >= kMaxEntries) return flush();
  timer_.start();
}

void InterestBuffer::flush() {
  if (pending_.empty()) return;
  const auto& limits = settings_.interactions;
  redis::Pipeline out;
  std::map<unsigned, std::vector<std::size_t>> calls;
  for (std::size_t i = 0; i < pending_.size(); ++i)
    calls[keys_.slot_or_zero(keys_.interactions(pending_[i].first.view()))].push_back(i);
  for (const auto& [call, readers] : calls) {
    out.script(scripts::kReaderPut);
    for (const std::size_t i : readers) {
      const std::string_view reader = pending_[i].first.view();
      out.key(keys_.interactions(reader)).key(keys_.archived_interactions(reader));
    }
    out.arg(limits.max_kept).arg(limits.ttl.count()).arg(limits.max_archived());
    out.arg(std::min(kTtlRenewalInterval, limits.ttl / 8).count());
    for (const std::size_t i : readers)
      out.arg("").arg(interaction_member(Interaction::kView, pending_[i].second.view())).arg("");
  }
  pending_.clear();
  write_queue_.post(std::move(out));
}

}  // namespace freshet::readers
