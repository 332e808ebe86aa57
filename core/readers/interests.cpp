#include "core/readers/interests.h"

#include <algorithm>
#include <map>
#include <vector>

#include "core/readers/reader_store.h"
#include "core/redis/scripts.h"

namespace freshet::readers {
namespace {
constexpr seconds kRenewed{86400};  // a TTL at most once in so long: that is enough
}  // namespace

Interests::Interests(redis::WriteQueue& deferred, const Settings& settings, redis::Keys keys,
                     redis::RunAfter after)
    : deferred_(deferred),
      settings_(settings),
      keys_(std::move(keys)),
      timer_(std::move(after), kEvery, [this] { flush(); }) {}

void Interests::note(const ReaderId& reader, const ItemId& item, milliseconds dwell) {
  if (dwell < settings_.feed.interest_min_dwell) return;
  waiting_.emplace_back(reader, item);
  if (waiting_.size() >= kMost) return flush();
  timer_.start();
}

void Interests::flush() {
  if (waiting_.empty()) return;
  const auto& kept = settings_.interactions;
  redis::Pipeline out;
  std::map<unsigned, std::vector<std::size_t>> calls;
  for (std::size_t i = 0; i < waiting_.size(); ++i)
    calls[keys_.slot_or_zero(keys_.interactions(waiting_[i].first.view()))].push_back(i);
  for (const auto& [call, readers] : calls) {
    out.script(scripts::kReaderPut);
    for (const std::size_t i : readers) {
      const std::string_view reader = waiting_[i].first.view();
      out.key(keys_.interactions(reader)).key(keys_.archived_interactions(reader));
    }
    out.arg(kept.max_kept).arg(kept.ttl.count()).arg(kept.max_archived());
    out.arg(std::min(kRenewed, kept.ttl / 8).count());
    for (const std::size_t i : readers)
      out.arg("").arg(interaction_member(Interaction::kView, waiting_[i].second.view())).arg("");
  }
  waiting_.clear();
  deferred_.post(std::move(out));
}

}  // namespace freshet::readers
