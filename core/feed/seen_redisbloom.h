// seen.filter = "redisbloom": one filter of the module per day. Filters are created with explicit
// capacity and error rate, never with the module's defaults.
#pragma once

#include <cstdint>

#include "core/feed/seen_filter.h"

namespace freshet::feed {

class SeenRedisBloom final : public SeenFilter {
 public:
  SeenRedisBloom(const SeenSettings& settings, redis::Keys keys);

  Task<Result<void>> probe(redis::Redis& redis) override;
  Task<Result<void>> load_day(redis::Redis& redis, UnixSeconds now) override;
  std::size_t append_read(redis::Pipeline& out, const ReaderId& reader, UnixSeconds now) const override;
  Result<std::shared_ptr<const SeenView>> parse_view(const redis::Replies& replies, std::size_t first_reply,
                                                     const ReaderId& reader, UnixSeconds now) override;
  Task<Result<std::vector<bool>>> check(redis::Redis& redis, const ReaderId& reader,
                                        const std::shared_ptr<const SeenView>& view,
                                        const std::vector<ItemId>& items, UnixSeconds now) override;
  Task<Result<void>> add(redis::Redis& redis, ReaderId reader, std::vector<ItemId> items, UnixSeconds at,
                         bool is_resend) override;
  SeenCounters counters() const override { return counters_; }
  Task<Result<SeenStatus>> status(redis::Redis& redis, UnixSeconds now) const override;

 private:
  const std::int64_t daily_capacity_;
  const double daily_rate_;
  const redis::Keys keys_;
  SeenCounters counters_;
};

}  // namespace freshet::feed
