// seen.filter = "fingerprints": the shards of core/feed/seen_layout.h as plain Redis strings,
// written with APPEND.
//
// This process's first write to a shard, and any write that may belong to an earlier day, goes
// through a script that sets the key's expiry and rejects expired days. Later writes are plain
// APPENDs. The reply, the new length, shows when the shard is full, and whether it holds nothing
// but the bytes just appended. In that case the shard is new (or was lost): its expiry is set, and
// yesterday's shard is compacted.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_set>

#include "core/feed/seen_filter.h"
#include "core/feed/seen_layout.h"

namespace freshet::feed {

class SeenFingerprints final : public SeenFilter {
 public:
  SeenFingerprints(const SeenSettings& settings, redis::Keys keys);

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
  using Day = std::chrono::sys_days;
  // Cached state of a day.
  struct DayState {
    std::int64_t shards;
    // initialized: shards that this process has written to; full: shards that accept no more.
    std::unordered_set<std::int64_t> initialized, full;
  };
  std::int64_t shard_count(Day day) const;
  DayState& day_state(Day day);
  std::string shard_key(Day day, std::int64_t shard) const;
  std::string shard_count_key(Day day) const;
  void append_shard_count(redis::Pipeline& out, Day day) const;
  void log_once(std::string_view event, std::string key, const std::string& error);

  const std::int64_t default_shards_;  // of days without stored layout
  const redis::Keys keys_;
  std::map<Day, DayState> days_;
  std::unordered_set<std::string> logged_keys_;  // shards that have been logged
  SeenCounters counters_;
};

}  // namespace freshet::feed
