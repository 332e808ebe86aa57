#include "core/readers/interests.h"

#include "core/readers/reader_store.h"
#include "core/redis/scripts.h"

namespace freshet::readers {

Interests::Interests(redis::Deferred& deferred, const Settings& settings, redis::Keys keys,
                     redis::After after)
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
  out.script(scripts::kInterestAdd);
  for (const auto& [reader, item] : waiting_)
    out.key(keys_.interactions(reader.view())).key(keys_.earlier(reader.view()));
  out.arg(kept.max_kept).arg(kept.max_earlier()).arg(kept.ttl.count());
  for (const auto& [reader, item] : waiting_) out.arg(interaction_member(Interaction::kView, item.view()));
  waiting_.clear();
  deferred_.post(std::move(out));
}

}  // namespace freshet::readers
