// Items shown to readers in the last seven days: one global filter per UTC day in Redis. Reads
// cover eight days, today and the seven before, so an impression is known for seven full days and
// the rest of its last day. Two implementations: "fingerprints" (core/feed/seen_layout.h) works on
// plain Redis, reads everything known of a reader in one command and checks it in memory;
// "redisbloom" uses the RedisBloom module's filters.
//
// Impressions expire by whole days only. Days are computed from the times passed in, never from the
// host's clock; Redis' clock decides whether a day has expired.
//
// The number of shards of a day is stored with it (bf:global:{day}:shards). A new value of
// seen.impressions_per_day takes effect on the next day; existing days keep their layout. Switching
// seen.filter loses all impressions.
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

// Counters of this process since its start.
struct SeenCounters {
  std::uint64_t recorded = 0;  // impressions
  std::uint64_t refused = 0;   // impressions dropped because their shard was full
};

class SeenFilter {
 public:
  virtual ~SeenFilter() = default;
  // Call first. Checks that the server supports seen.filter and loads the layout of existing days.
  // 1 RTT. Errors: kUnavailable "no_redisbloom", whose detail says what to do; Redis' own.
  virtual Task<Result<void>> probe(redis::Redis& redis) = 0;
  // Call before append_read(). Loads the layout of the day of `now`: 1 RTT on the first call of a
  // day, else none.
  virtual Task<Result<void>> load_day(redis::Redis& redis, UnixSeconds now) = 0;
  // Appends the commands that read a reader's impressions. Returns the number of replies
  // (fingerprints: 1, more if days differ in layout; redisbloom: 0).
  virtual std::size_t append_read(redis::Pipeline& out, const ReaderId& reader, UnixSeconds now) const = 0;
  // Parses the view from `replies`, starting at `first_reply`; null with redisbloom. `reader` and
  // `now` as given to append_read().
  virtual Result<std::shared_ptr<const SeenView>> parse_view(const redis::Replies& replies,
                                                             std::size_t first_reply, const ReaderId& reader,
                                                             UnixSeconds now) = 0;
  // For each of `items`, in order, whether the reader has seen it. No round trip with a view, 1 RTT
  // without.
  virtual Task<Result<std::vector<bool>>> check(redis::Redis& redis, const ReaderId& reader,
                                                const std::shared_ptr<const SeenView>& view,
                                                const std::vector<ItemId>& items, UnixSeconds now) = 0;
  // Adds impressions at time `at`; they are visible when it returns. 1 RTT, 2 on the first call for
  // a day. Does nothing if Redis' clock says that the day has expired, or if the shard is full
  // (counted and logged). Idempotent. `is_resend`: `at` may be long ago. Errors: Redis' own.
  virtual Task<Result<void>> add(redis::Redis& redis, ReaderId reader, std::vector<ItemId> items,
                                 UnixSeconds at, bool is_resend) = 0;
  virtual SeenCounters counters() const { return {}; }
  // For /status. 1 RTT; fingerprints are estimated from a sample of shards.
  virtual Task<Result<SeenStatus>> status(redis::Redis& redis, UnixSeconds now) const = 0;
};

// Selects the implementation by seen.filter, which must be validated.
std::unique_ptr<SeenFilter> make_seen_filter(const Settings& settings, const redis::Keys& keys);

}  // namespace freshet::feed
