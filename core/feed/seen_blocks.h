// seen.filter = "blocks": the tables of core/feed/seen_layout.h in strings of a plain Redis.
#pragma once

#include <map>

#include "core/feed/seen_filter.h"
#include "core/feed/seen_layout.h"

namespace freshet::feed {

class SeenBlocks final : public SeenFilter {
 public:
  SeenBlocks(const SeenSettings& settings, redis::Keys keys);

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
  using Day = std::chrono::sys_days;
  SeenLayout layout_of(Day day) const;
  std::string shard_key(Day day, std::uint64_t reader_hash) const;
  std::string layout_key(Day day) const;
  void append_layout(redis::Pipeline& out, Day day) const;

  const SeenLayout layout_;  // of days that begin now
  const redis::Keys keys_;
  // What is known of the server, no state of its own: layouts of days that were there at the start, and of
  // those that this process has written down since.
  mutable std::map<Day, SeenLayout> layouts_;
};

}  // namespace freshet::feed
