#include "fcgi/sampler.h"

#include <algorithm>
#include <array>

namespace freshet {

void Sampler::tick(milliseconds now) {
  std::int64_t claimed = sample_.claimed_ms.load();
  if (taking_ || !redis_.ready() || (claimed != 0 && now.count() < claimed + kSampleIntervalMs)) return;
  if (!sample_.claimed_ms.compare_exchange_strong(claimed, now.count())) return;
  taking_ = true;
  spawn(take(), [this](std::exception_ptr) { taking_ = false; });
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
