// seen.filter = "redisbloom": one filter of the module a day, made with capacity and rate, never by default.
#pragma once

#include "core/feed/seen_filter.h"

namespace freshet::feed {

class SeenRedisBloom final : public SeenFilter {
 public:
  SeenRedisBloom(const SeenSettings& settings, redis::Keys keys);

  Task<Result<void>> probe(redis::Redis& redis) const override;
  std::size_t append_read(redis::Pipeline& out, const ReaderId& reader, UnixSeconds now) const override;
  Result<std::shared_ptr<const SeenView>> view(const redis::Replies& replies, std::size_t first,
                                               const ReaderId& reader, UnixSeconds now) const override;
  Task<Result<std::vector<bool>>> check(redis::Redis& redis, const ReaderId& reader,
                                        const std::shared_ptr<const SeenView>& view,
                                        const std::vector<ItemId>& items, UnixSeconds now) const override;
  void append_add(redis::Pipeline& out, const ReaderId& reader, const std::vector<ItemId>& items,
                  UnixSeconds at) const override;
  Task<Result<SeenStatus>> status(redis::Redis& redis, UnixSeconds now) const override;

 private:
  const std::int64_t capacity_;  // of a day
  const double rate_;            // of a day
  const redis::Keys keys_;
};

}  // namespace freshet::feed
