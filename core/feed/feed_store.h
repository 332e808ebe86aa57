// FeedStore on Redis: a reader's buffer and the hash of their feed
// (core/feed/parts/feed_state.lua), the seen-filter, and the newest interactions. What hands out is
// one atomic script on the reader's own two keys.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>

#include "core/config/settings.h"
#include "core/feed/ports.h"
#include "core/feed/seen_epoch.h"
#include "core/feed/seen_filter.h"
#include "core/redis/groups/group_merge.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"

namespace freshet::feed {

inline constexpr std::size_t kMostInteractions =
    100;  // the newest of a reader, among which interests are found
inline constexpr std::int64_t kMostStateFields = 7;  // of the hash of a reader's feed
inline constexpr std::size_t kMostLines = 1000;      // of a buffer: one script's RPUSH
inline constexpr std::size_t kHotHead = 100;         // offered to a reader without interests

class RedisFeedStore final : public FeedStore {
 public:
  using Clock = std::function<UnixSeconds()>;
  // All references must outlive this. `clock` says on which UTC day an impression falls, and when a
  // second is over; `epoch_name` as of SeenEpochs.
  RedisFeedStore(redis::Redis& redis, SeenFilter& filter, const Settings& settings, redis::Keys keys,
                 Clock clock = wall_now, SeenEpochs::Name epoch_name = {});

  Task<Result<Opening>> open(const FeedRequest& request, bool peek) override;
  Task<Result<std::vector<bool>>> seen(const ReaderId& reader, const std::shared_ptr<const SeenView>& view,
                                       const std::vector<ItemId>& items) override;
  Task<Result<std::vector<ItemId>>> newest(std::size_t most) override;
  Task<Result<Refilled>> swap(const FeedRequest& request, const Refill& refill) override;
  Task<Result<Taken>> take(const FeedRequest& request) override;
  Task<Result<Taken>> refill(const FeedRequest& request, const Page& kept) override;
  Task<Result<std::vector<ItemId>>> show_again(const FeedRequest& request,
                                               const std::vector<ItemId>& items) override;
  Task<Result<SeenStatus>> seen_status() override;
  Task<Result<void>> record(ReaderId reader, Impressions impressions) override;

 private:
  // The filter's view from the epoch's reply `first` and those behind it; `known_as`: whom the
  // filter was asked about. No round trip, 1 when the reader was erased since this process last
  // looked.
  Task<Result<std::shared_ptr<const SeenView>>> view_of(const redis::Replies& replies, std::size_t first,
                                                        const ReaderId& reader, const ReaderId& known_as,
                                                        UnixSeconds now);
  Task<Result<Taken>> take_or_refill(const FeedRequest& request, const Page* kept);
  void append_page(redis::Pipeline& out, const redis::Script& script, const FeedRequest& request,
                   const Page* kept) const;
  std::optional<redis::PartitionedTopN> hot_head(UnixSeconds now) const;
  seconds acknowledged_ttl() const { return std::max(feed_.buffer_ttl, feed_.replay_window); }

  redis::Redis& redis_;
  SeenFilter& filter_;
  const FeedSettings feed_;
  const InteractionSettings interactions_;
  const redis::Keys keys_;
  SeenEpochs epochs_;
  const Clock clock_;
  std::vector<ItemId> hot_;              // the hottest: read once a second, not by each request
  std::optional<UnixSeconds> hot_read_;  // when
};

}  // namespace freshet::feed
