#include "fcgi/redis_sampler.h"

#include <algorithm>
#include <array>

#include "core/base/log.h"
#include "core/base/redis_clock.h"
#include "core/redis/fields.h"
#include "core/redis/schema.h"

namespace freshet {

bool RedisSampler::claim(std::atomic<std::int64_t>& claimed_ms, std::int64_t interval_ms, milliseconds now) {
  std::int64_t claimed = claimed_ms.load();
  if (claimed != 0 && now.count() < claimed + interval_ms) return false;
  return claimed_ms.compare_exchange_strong(claimed, now.count());
}

void RedisSampler::tick(milliseconds now) {
  if (!redis_.ready()) return;
  if (!sampling_health_ && claim(sample_.health_claimed_ms, kHealthIntervalMs, now)) {
    sampling_health_ = true;
    spawn(sample_health(now), [this](std::exception_ptr) { sampling_health_ = false; });
  }
  if (!sampling_key_stats_ && claim(sample_.key_stats_claimed_ms, kKeyStatsIntervalMs, now)) {
    sampling_key_stats_ = true;
    spawn(sample_key_stats(), [this](std::exception_ptr) { sampling_key_stats_ = false; });
  }
}

Task<Result<void>> RedisSampler::start() {
  redis::Pipeline request;
  request.add("TIME");
  spools_.append_read(request);
  request.add("INFO", "server");
  const auto sent_at = since_boot();
  FRESHET_CO_TRY(replies, co_await redis_.run(request));
  for (std::size_t required = 0; required < 2; ++required) {
    if ((*replies)[required].is_error())
      co_return tl::unexpected(redis::classify((*replies)[required].error()));
  }
  // Not known if the account may not send INFO.
  if (auto supported = redis::check_server_version((*replies)[2].text()); !supported) co_return supported;
  update_clock((*replies)[0], sent_at);
  const redis::Pipeline answer = spools_.build_report((*replies)[1]);
  if (!answer.empty()) co_await redis_.run(answer);  // on error it is retried within a second
  co_return Result<void>();
}

void RedisSampler::update_clock(const redis::Reply& time, std::chrono::microseconds sent_at) {
  const auto now = redis::parse_time(time);
  if (!now) return;
  update_redis_clock(*now, sent_at);
  sample_.clock_offset_us.store(redis_clock_offset()->count(), std::memory_order_relaxed);
}

// An error (no reply, or no permission) leaves the previous state.
Task<void> RedisSampler::sample_health(milliseconds now) {
  redis::Pipeline request;
  request.add("GET", keys_.data_lost_at())
      .add("INFO", "memory")
      .add("HGET", keys_.recorder_lease(), "holder");
  request.add("TIME");
  spools_.append_read(request);
  const auto sent_at = since_boot();
  const auto replies = co_await redis_.run(request);
  if (!replies) co_return;
  if (const redis::Reply& lost = replies->front(); !lost.is_error())
    sample_.data_lost_since.store(redis::parse_or_zero<std::int64_t>(lost.text()) / 1000);
  update_clock((*replies)[3], sent_at);
  const redis::Pipeline answer = spools_.build_report((*replies)[4]);
  const redis::Reply& recorder = (*replies)[2];
  RecorderOwner owner{};
  std::ranges::copy(recorder.text().substr(0, owner.size() - 1), owner.begin());
  sample_.recorder_owner.store(owner);
  const redis::MemoryLevel previous = sample_.memory.load();
  const auto level = redis::update_memory_level((*replies)[1].text(), previous, now);
  if (!answer.empty()) co_await redis_.run(answer);  // on error it is retried within a second
  if (!level) co_return;
  sample_.memory.store(*level);
  sample_.memory_full.store(level->full != 0, std::memory_order_relaxed);
  if (level->full == previous.full) co_return;
  log::write(level->full != 0 ? log::Level::kError : log::Level::kNotice,
             level->full != 0 ? "redis_memory_exhausted" : "redis_memory_recovered",
             {{"used", std::to_string(level->used)}, {"maxmemory", std::to_string(level->max)}});
}

Task<void> RedisSampler::sample_key_stats() {
  redis::Pipeline sizes;
  constexpr std::size_t kKeysPerPartition = 6;
  for (const redis::PartitionKeys& partition : keys_.partitions()) {
    for (const std::string& key : {partition.rank(hot::kEngagementModel), partition.rank(hot::kViewsModel),
                                   partition.published(), partition.hidden(), partition.newest()})
      sizes.add("ZCARD", key);
    sizes.add("XLEN", partition.stream());
  }
  sizes.add("INFO", "server");
  const auto replies = co_await redis_.run(sizes);
  if (!replies) co_return;
  RedisKeyStats stats;
  const std::array members{&RedisKeyStats::hot_rank,      &RedisKeyStats::hot_score,
                           &RedisKeyStats::hot_published, &RedisKeyStats::hot_hidden,
                           &RedisKeyStats::hot_newest,    &RedisKeyStats::stream_entries};
  static_assert(members.size() == kKeysPerPartition);
  std::int64_t fullest = 0;
  redis::server_name(replies->back().text()).copy(stats.server.data(), stats.server.size() - 1);
  for (std::size_t i = 0; i + 1 < replies->size(); ++i) {
    const std::int64_t size = (*replies)[i].integer().value_or(0);
    stats.*members.at(i % kKeysPerPartition) += size;
    if (members.at(i % kKeysPerPartition) == &RedisKeyStats::stream_entries)
      fullest = std::max(fullest, size);
  }
  stats.stream_fill = static_cast<double>(fullest) / static_cast<double>(stream_max_);
  const auto seen = co_await feed_.seen_status();
  if (!seen) co_return;
  const feed::SeenDay today = seen->days.empty() ? feed::SeenDay() : seen->days.front();
  stats.seen_bytes = static_cast<std::int64_t>(seen->bytes);
  stats.seen_impressions_today = today.impressions;
  stats.seen_fill_today = today.fill;
  stats.seen_false_positive_rate = seen->false_positive_rate;
  std::ranges::copy(seen->filter.substr(0, stats.seen_filter.size() - 1), stats.seen_filter.begin());
  stats.sampled_at = wall_now().time_since_epoch().count();
  sample_.key_stats.store(stats);
}

}  // namespace freshet
