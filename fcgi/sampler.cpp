#include "fcgi/sampler.h"

#include <algorithm>
#include <array>

#include "core/base/agreed_clock.h"
#include "core/base/log.h"
#include "core/redis/fields.h"

namespace freshet {

bool Sampler::claim(std::atomic<std::int64_t>& claimed_ms, std::int64_t interval_ms, milliseconds now) {
  std::int64_t claimed = claimed_ms.load();
  if (claimed != 0 && now.count() < claimed + interval_ms) return false;
  return claimed_ms.compare_exchange_strong(claimed, now.count());
}

void Sampler::tick(milliseconds now) {
  if (!redis_.ready()) return;
  if (!looking_ && claim(sample_.health_claimed_ms, kHealthIntervalMs, now)) {
    looking_ = true;
    spawn(look_at_health(now), [this](std::exception_ptr) { looking_ = false; });
  }
  if (!taking_ && claim(sample_.claimed_ms, kSampleIntervalMs, now)) {
    taking_ = true;
    spawn(take(), [this](std::exception_ptr) { taking_ = false; });
  }
}

Task<Result<void>> Sampler::begin() {
  redis::Pipeline asked;
  asked.add("TIME");
  spools_.append_read(asked);
  const auto asked_at = since_boot();
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, asked));
  take_time((*replies)[0], asked_at);
  const redis::Pipeline answer = spools_.build_report((*replies)[1]);
  if (!answer.empty()) co_await redis_.run(answer);  // else it is asked again in a second
  co_return Result<void>();
}

void Sampler::take_time(const redis::Reply& time, std::chrono::microseconds asked_at) {
  const auto now = redis::parse_time(time);
  if (!now) return;
  update_redis_clock(*now, asked_at);
  sample_.clock_offset_us.store(redis_clock_offset()->count(), std::memory_order_relaxed);
}

// A Redis that does not answer says nothing of what it has; nor does one that does not let us ask.
Task<void> Sampler::look_at_health(milliseconds now) {
  redis::Pipeline asked;
  asked.add("GET", keys_.data_lost_at()).add("INFO", "memory").add("HGET", keys_.recorder_lease(), "holder");
  asked.add("TIME");
  spools_.append_read(asked);
  const auto asked_at = since_boot();
  const auto replies = co_await redis_.run(asked);
  if (!replies) co_return;
  if (const redis::Reply& lost = replies->front(); !lost.is_error())
    sample_.lost_since.store(redis::parse_or_zero<std::int64_t>(lost.text()) / 1000);
  take_time((*replies)[3], asked_at);
  const redis::Pipeline answer = spools_.build_report((*replies)[4]);
  const redis::Reply& recorder = (*replies)[2];
  RecorderHolder holder{};
  std::ranges::copy(recorder.text().substr(0, holder.size() - 1), holder.begin());
  sample_.recorder_holder.store(holder);
  const redis::MemoryLevel before = sample_.memory.load();
  const auto level = redis::update_memory_level((*replies)[1].text(), before, now);
  if (!answer.empty()) co_await redis_.run(answer);  // else it is asked again in a second
  if (!level) co_return;
  sample_.memory.store(*level);
  sample_.full.store(level->full != 0, std::memory_order_relaxed);
  if (level->full == before.full) co_return;
  log::write(level->full != 0 ? log::Level::kError : log::Level::kNotice,
             level->full != 0 ? "redis_full" : "redis_has_room",
             {{"used", std::to_string(level->used)}, {"maxmemory", std::to_string(level->max)}});
}

Task<void> Sampler::take() {
  redis::Pipeline sizes;
  constexpr std::size_t kOfGroup = 6;
  for (const redis::PartitionKeys& each : keys_.partitions()) {
    for (const std::string& key : {each.rank(hot::kEngagementModel), each.rank(hot::kViewsModel), each.published(),
                                   each.hidden(), each.newest()})
      sizes.add("ZCARD", key);
    sizes.add("XLEN", each.stream());
  }
  const auto replies = co_await redis_.run(sizes);
  if (!replies) co_return;
  StoreNumbers numbers;
  const std::array members{&StoreNumbers::hot_rank,      &StoreNumbers::hot_score,
                           &StoreNumbers::hot_published, &StoreNumbers::hot_hidden,
                           &StoreNumbers::hot_newest,    &StoreNumbers::stream_entries};
  static_assert(members.size() == kOfGroup);
  std::int64_t fullest = 0;
  for (std::size_t i = 0; i < replies->size(); ++i) {
    const std::int64_t size = (*replies)[i].integer().value_or(0);
    numbers.*members.at(i % kOfGroup) += size;
    if (members.at(i % kOfGroup) == &StoreNumbers::stream_entries) fullest = std::max(fullest, size);
  }
  numbers.stream_fill = static_cast<double>(fullest) / static_cast<double>(stream_max_);
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
