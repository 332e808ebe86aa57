// seen.filter = "fingerprints": the shards of core/feed/seen_layout.h as strings of a plain Redis,
// written by APPEND.
//
// The first time this process adds to a shard, and for what may be of an earlier day, a script sets
// the end of the key with it and refuses days that are over. From then on it is a plain APPEND: its
// reply, the length, tells when the shard is full, and when it is nothing but what was appended.
// Then the shard is new (or was lost meanwhile): it gets its end, and yesterday's is closed.
#pragma once

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
  // What this process knows of a day.
  struct DayState {
    std::int64_t shards;
    std::unordered_set<std::int64_t> initialized, full;  // shards that it has added to; that take no more
  };
  std::int64_t shard_count(Day day) const;
  DayState& day_state(Day day);
  std::string shard_key(Day day, std::int64_t shard) const;
  std::string shard_count_key(Day day) const;
  void append_shard_count(redis::Pipeline& out, Day day) const;
  void log_once(std::string_view event, std::string key, const std::string& error);

  const std::int64_t default_shards_;  // of days that begin now
  const redis::Keys keys_;
  std::map<Day, DayState> days_;
  std::unordered_set<std::string> logged_keys_;  // of which shards the log has a line
  SeenCounters counters_;
};

}  // namespace freshet::feed
