// What readers have been shown in the last seven days: one global filter a UTC day, in Redis. Eight days are
// looked at, today and the seven before, so an impression is known for seven full days and the rest of the
// day after. Two implementations: "blocks" (core/feed/seen_layout.h) on a plain Redis, where a reader's view
// is read in one command and asked in memory; and the RedisBloom module's filters.
//
// A filter forgets nothing of a day before the whole day; of what was not added it takes
// seen.false_positive_rate for seen, over all eight days together. Days are those of the times passed in,
// never the host's own.
//
// Settings that change the layout of "blocks" take effect with the next day's filter: each day's layout is
// kept beside it (bf:global:{day}:layout), and days are read and written as they were begun. Going over from
// one seen.filter to the other forgets what was seen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/config/settings.h"
#include "core/feed/ports.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::feed {

class SeenFilter {
 public:
  virtual ~SeenFilter() = default;
  // Before anything else, 2 RTT: is there on the server what seen.filter needs, and how are the days laid out
  // that exist? Errors: kUnavailable "no_redisbloom", whose detail says what to do; Redis' own.
  virtual Task<Result<void>> probe(redis::Redis& redis) const = 0;
  // Appends the commands that read what is known of the reader; returns how many replies they take (blocks:
  // 1, more when days differ in layout; redisbloom: 0).
  virtual std::size_t append_read(redis::Pipeline& out, const ReaderId& reader, UnixSeconds now) const = 0;
  // The view in `replies` from `first` on; null for redisbloom. `now` as given to append_read().
  virtual Result<std::shared_ptr<const SeenView>> view(const redis::Replies& replies, std::size_t first,
                                                       const ReaderId& reader, UnixSeconds now) const = 0;
  // Which of `items` the reader has seen, in order. 0 RTT with a view; without one 1 RTT.
  virtual Task<Result<std::vector<bool>>> check(redis::Redis& redis, const ReaderId& reader,
                                                const std::shared_ptr<const SeenView>& view,
                                                const std::vector<ItemId>& items, UnixSeconds now) const = 0;
  // Appends the commands that add impressions handed out at `at`. Repeating them is harmless; when the day of
  // `at` is forgotten by Redis' clock they do nothing.
  virtual void append_add(redis::Pipeline& out, const ReaderId& reader, const std::vector<ItemId>& items,
                          UnixSeconds at) const = 0;
  // For /status: 1 RTT; blocks look at a sample of the shards.
  virtual Task<Result<SeenStatus>> status(redis::Redis& redis, UnixSeconds now) const = 0;
};

// As seen.filter says; the settings are validated.
std::unique_ptr<SeenFilter> make_seen_filter(const Settings& settings, const redis::Keys& keys);

}  // namespace freshet::feed
