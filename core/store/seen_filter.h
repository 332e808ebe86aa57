// What a reader has been shown in the last seven days: one global Bloom filter a UTC day, in Redis. Eight
// days are looked at, today and the seven before, so an impression is known for seven full days, and for up
// to one more. Two implementations: blocks (core/rank/seen_layout.h) on a plain Redis, which a reader's view
// is read from in one pipeline; and the RedisBloom module's filters.
//
// A filter never forgets what was added, until its day is over; of what was not added it takes
// seen.false_positive_rate for seen, over all eight days together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/async/redis.h"
#include "core/base/ids.h"
#include "core/base/settings.h"
#include "core/feed/ports_feed.h"
#include "core/store/keys.h"

namespace freshet::store {

struct SeenDay {
  std::string day;          // "20260306", UTC
  std::uint64_t bytes = 0;  // of its keys
  double fill = 0;          // blocks: share of set bits in bytes that exist; redisbloom: inserted ÷ capacity
  double false_positive_rate = 0;  // estimated, of this day alone, averaged over readers
};

// For /status. blocks: from a sample of the shards.
struct SeenStatus {
  std::string filter;              // as in seen.filter
  std::vector<SeenDay> days;       // days of which there is something, newest first
  std::uint64_t bytes = 0;         // of all days
  double false_positive_rate = 0;  // estimated, of all days together
};

class SeenFilter {
 public:
  virtual ~SeenFilter() = default;
  // At start: is there on the server what seen.filter needs? A few commands. Errors: kUnavailable
  // "no_redisbloom", whose detail says what to do; Redis' own.
  virtual Task<Result<void>> probe(redis::Redis& redis) const = 0;
  // Appends the commands that read what is known of the reader; returns how many replies they take (blocks: 1
  // without hash tags; redisbloom: 0).
  virtual std::size_t append_read(redis::Pipeline& out, const ReaderId& reader, UnixSeconds now) const = 0;
  // The view in `replies` from `first` on; null for redisbloom. `now` as given to append_read().
  virtual Result<std::shared_ptr<const feed::SeenView>> view(const redis::Replies& replies, std::size_t first,
                                                             const ReaderId& reader,
                                                             UnixSeconds now) const = 0;
  // Which of `items` the reader has seen, in order. 0 RTT with a view; without one (redisbloom) 1 RTT.
  virtual Task<Result<std::vector<bool>>> check(redis::Redis& redis, const ReaderId& reader,
                                                const std::shared_ptr<const feed::SeenView>& view,
                                                const std::vector<ItemId>& items, UnixSeconds now) const = 0;
  // Appends the commands that add impressions handed out at `at`. Repeating them is harmless; once the day of
  // `at` is over by eight days they do nothing.
  virtual void append_add(redis::Pipeline& out, const ReaderId& reader, const std::vector<ItemId>& items,
                          UnixSeconds at) const = 0;
  // For /status: a few RTT.
  virtual Task<Result<SeenStatus>> status(redis::Redis& redis, UnixSeconds now) const = 0;
};

// As seen.filter says; the settings are validated.
std::unique_ptr<SeenFilter> make_seen_filter(const Settings& settings, const Keys& keys);

}  // namespace freshet::store
