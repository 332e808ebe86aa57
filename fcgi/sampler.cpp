#include "fcgi/sampler.h"

#include <algorithm>
#include <array>

#include "core/store/fields.h"

namespace freshet {

bool Sampler::claim(std::atomic<std::int64_t>& claimed_ms, std::int64_t interval_ms, milliseconds now) {
  std::int64_t claimed = claimed_ms.load();
  if (claimed != 0 && now.count() < claimed + interval_ms) return false;
  return claimed_ms.compare_exchange_strong(claimed, now.count());
}

void Sampler::tick(milliseconds now) {
  if (!redis_.ready()) return;
  if (!looking_ && claim(sample_.loss_claimed_ms, kLossIntervalMs, now)) {
    looking_ = true;
    spawn(look_for_loss(), [this](std::exception_ptr) { looking_ = false; });
  }
  if (!taking_ && claim(sample_.claimed_ms, kSampleIntervalMs, now)) {
    taking_ = true;
    spawn(take(), [this](std::exception_ptr) { taking_ = false; });
  }
}

// A Redis that does not answer says nothing of what it has.
Task<void> Sampler::look_for_loss() {
  redis::Pipeline note;
  note.add("GET", keys_.lost());
  const auto replies = co_await redis_.run(note);
  if (!replies || replies->front().is_error()) co_return;
  const auto at_ms = store::parse_or_zero<std::int64_t>(replies->front().string().value_or(""));
  sample_.lost_since.store(at_ms / 1000);
}

Task<void> Sampler::take() {
  redis::Pipeline sizes;
  for (const std::string& key :
       {keys_.rank(), keys_.score(), keys_.published(), keys_.hidden(), keys_.newest()})
    sizes.add("ZCARD", key);
  sizes.add("XLEN", keys_.stream());
  const auto replies = co_await redis_.run(sizes);
  if (!replies) co_return;
  StoreNumbers numbers;
  const std::array members{&StoreNumbers::hot_rank,      &StoreNumbers::hot_score,
                           &StoreNumbers::hot_published, &StoreNumbers::hot_hidden,
                           &StoreNumbers::hot_newest,    &StoreNumbers::stream_entries};
  for (std::size_t i = 0; i < members.size(); ++i) numbers.*members[i] = (*replies)[i].integer().value_or(0);
  const auto seen = co_await feed_.seen_status();
  if (!seen) co_return;
  const feed::SeenDay today = seen->days.empty() ? feed::SeenDay() : seen->days.front();
  numbers.seen_bytes = static_cast<std::int64_t>(seen->bytes);
  numbers.seen_impressions_today = today.impressions;
  numbers.seen_fill_today = today.fill;
  numbers.seen_false_positive_rate = seen->false_positive_rate;
  std::ranges::copy(seen->filter.substr(0, numbers.seen_filter.size() - 1), numbers.seen_filter.begin());
  numbers.taken_at = wall_now().time_since_epoch().count();
  sample_.numbers.store(numbers);
}

}  // namespace freshet
