// FeedStore on Redis: a reader's buffer, the hash of their feed (core/feed/parts/feed_state.lua),
// the seen filter, and the newest interactions. A page is delivered by one atomic script on the
// reader's own two keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/config/settings.h"
#include "core/feed/ports.h"
#include "core/feed/seen_epoch.h"
#include "core/feed/seen_filter.h"
#include "core/redis/keys.h"
#include "core/redis/partitions/partitioned_top_n.h"
#include "core/redis/redis.h"

namespace freshet::feed {

inline constexpr std::size_t kMaxInteractions =
    100;  // newest interactions of a reader that are searched for interests
inline constexpr std::int64_t kMaxStateFields = 7;  // fields of the hash of a reader's feed
// Lines of a buffer. Limited because one script pushes them with a single RPUSH.
inline constexpr std::size_t kMaxBufferLines = 1000;
// For the order of a refresh, and offered to readers without interests.
inline constexpr std::size_t kMaxHotItems = 100;

class RedisFeedStore final : public FeedStore {
 public:
  using Clock = std::function<UnixSeconds()>;
  // All references must outlive this. `clock` determines the UTC day of an impression and when the
  // cached hot items expire. `erasure_pseudonym`: see SeenEpochs.
  RedisFeedStore(redis::Redis& redis, SeenFilter& filter, const Settings& settings, redis::Keys keys,
                 Clock clock = wall_now, SeenEpochs::Pseudonym erasure_pseudonym = {});

  Task<Result<FeedState>> load_state(const FeedRequest& request, bool peek) override;
  Task<Result<std::vector<bool>>> check_seen(const ReaderId& reader,
                                             const std::shared_ptr<const SeenView>& view,
                                             const std::vector<ItemId>& items) override;
  Task<Result<std::vector<ItemId>>> newest_items(std::size_t limit) override;
  Task<Result<SwapResult>> swap_buffer(const FeedRequest& request, const BufferSwap& swap) override;
  Task<Result<PageResult>> next_page(const FeedRequest& request) override;
  Task<Result<PageResult>> refill_page(const FeedRequest& request, const Page& partial) override;
  Task<Result<std::vector<ItemId>>> replay_page(const FeedRequest& request,
                                                const std::vector<ItemId>& items) override;
  Task<Result<SeenStatus>> seen_status() override;
  Task<Result<void>> record(ReaderId reader, Impressions impressions) override;

 private:
  // Parses the filter's view from `replies`: those of SeenEpochs at `first_reply`, and the filter's
  // own after them. `filter_ids`: the names the filter was read with. No round trip; 1 RTT if the
  // reader was erased or merged since this process last read their names.
  Task<Result<std::shared_ptr<const SeenView>>> resolve_seen_view(const redis::Replies& replies,
                                                                  std::size_t first_reply,
                                                                  const ReaderId& reader,
                                                                  const std::vector<ReaderId>& filter_ids,
                                                                  UnixSeconds now);
  // Reads the filter under these names. 1 RTT; none and null with redisbloom.
  Task<Result<std::shared_ptr<const SeenView>>> read_seen_view(const std::vector<ReaderId>& filter_ids,
                                                               UnixSeconds now);
  Result<std::shared_ptr<const SeenView>> parse_seen_view(const redis::Replies& replies,
                                                          std::size_t first_reply,
                                                          const std::vector<ReaderId>& filter_ids,
                                                          UnixSeconds now);
  Task<Result<PageResult>> deliver_page(const FeedRequest& request, const Page* partial);
  void append_delivery(redis::Pipeline& out, const redis::Script& script, const FeedRequest& request,
                       const Page* partial) const;
  std::optional<redis::PartitionedTopN> hot_items_read(UnixSeconds now) const;
  seconds acknowledged_ttl(const ReaderId& reader) const {
    return reader_settings_.bounded_ttl(reader.view(),
                                        std::max(feed_settings_.buffer_ttl, feed_settings_.replay_window));
  }

  redis::Redis& redis_;
  SeenFilter& filter_;
  const ReaderSettings reader_settings_;
  const FeedSettings feed_settings_;
  const InteractionSettings interaction_settings_;
  const FeedbackSettings feedback_settings_;
  const redis::Keys keys_;
  SeenEpochs epochs_;
  const Clock clock_;
  std::vector<ItemId> hot_items_;                 // cached for one second
  std::optional<UnixSeconds> hot_items_read_at_;  // nullopt: never
};

}  // namespace freshet::feed
