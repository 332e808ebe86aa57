// What readers have been shown in the last seven days: one global filter a UTC day, in Redis. Eight
// days are looked at, today and the seven before, so an impression is known for seven full days and
// the rest of the day after. Two implementations: "fingerprints" (core/feed/seen_layout.h) on a
// plain Redis, where all that is known of a reader is read in one command and asked in memory; and
// the RedisBloom module's filters.
//
// A filter forgets nothing of a day before the whole day. Days are those of the times passed in,
// never the host's own; whether a day is over Redis' clock says.
//
// Into how many shards a day is cut is kept beside it (bf:global:{day}:shards): another
// seen.impressions_per_day takes effect with the next day, and days are read and written as they
// were begun. Going over from one seen.filter to the other forgets what was seen.
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

// Of this process, since its start.
struct SeenCounters {
  std::uint64_t recorded = 0;  // impressions
  std::uint64_t refused = 0;   // for which their shard had no room: they are forgotten
};

class SeenFilter {
 public:
  virtual ~SeenFilter() = default;
  // Before anything else, 1 RTT: is there on the server what seen.filter needs, and how are the
  // days cut that exist? Errors: kUnavailable "no_redisbloom", whose detail says what to do; Redis'
  // own.
  virtual Task<Result<void>> probe(redis::Redis& redis) = 0;
  // Before append_read(): how today is cut. 1 RTT on the first call of a day, else 0.
  virtual Task<Result<void>> load_day(redis::Redis& redis, UnixSeconds now) = 0;
  // Appends the commands that read what is known of the reader; returns how many replies they take
  // (fingerprints: 1, more when days differ in their cut; redisbloom: 0).
  virtual std::size_t append_read(redis::Pipeline& out, const ReaderId& reader, UnixSeconds now) const = 0;
  // The view in `replies` from `first` on; null for redisbloom. `reader` and `now` as given to
  // append_read().
  virtual Result<std::shared_ptr<const SeenView>> parse_view(const redis::Replies& replies, std::size_t first_reply,
                                                       const ReaderId& reader, UnixSeconds now) = 0;
  // Which of `items` the reader has seen, in order. 0 RTT with a view; without one 1 RTT.
  virtual Task<Result<std::vector<bool>>> check(redis::Redis& redis, const ReaderId& reader,
                                                const std::shared_ptr<const SeenView>& view,
                                                const std::vector<ItemId>& items, UnixSeconds now) = 0;
  // Adds impressions of `at`: 1 RTT, 2 on the first call for a day. They are known when it returns;
  // nothing is done when the day is forgotten by Redis' clock, or the shard is full (counted and
  // logged). Repeating it is harmless. `again`: `at` may be long ago. Errors: Redis' own.
  virtual Task<Result<void>> add(redis::Redis& redis, ReaderId reader, std::vector<ItemId> items,
                                 UnixSeconds at, bool is_resend) = 0;
  virtual SeenCounters counters() const { return {}; }
  // For /status: 1 RTT; fingerprints look at a sample of the shards.
  virtual Task<Result<SeenStatus>> status(redis::Redis& redis, UnixSeconds now) const = 0;
};

// As seen.filter says; the settings are validated.
std::unique_ptr<SeenFilter> make_seen_filter(const Settings& settings, const redis::Keys& keys);

}  // namespace freshet::feed
