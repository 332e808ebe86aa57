// HotStore on Redis: counters, ranks and cached lists. Counting an event is one script, whose
// contract is in its header comment; lists are plain reads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/config/settings.h"
#include "core/hot/contributions.h"
#include "core/hot/ports.h"
#include "core/hot/rank_updater.h"
#include "core/items/view_count_buffer.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "core/redis/write_queue.h"

namespace freshet::hot {

class RedisHotStore final : public HotStore {
 public:
  using EventIdGenerator =
      std::function<std::string()>;  // returns globally unique ids, for example 128 random bits

  // Asynchronous writers of this worker, shared by its stores. All must outlive the store.
  struct DeferredWriters {
    redis::WriteQueue& write_queue;
    RankUpdater& rank_updater;
    ContributionBuffer& contributions;
    items::ViewCountBuffer& view_counts;
  };
  RedisHotStore(redis::Redis& redis, DeferredWriters writers, const Settings& settings, redis::Keys keys,
                EventIdGenerator new_event_id);

  // Both take one more RTT around midnight UTC if this host's clock and Redis' disagree about the
  // day.
  Task<Result<TrackResult>> track(const TrackEvent& event) override;
  Task<Result<ViewResult>> view(const ViewEvent& event) override;
  // An event without an id gets one, so that a replay counts it once. Its time is set to the
  // current time.
  Result<void> spool_track(const TrackEvent& event) override;
  Result<void> spool_view(const ViewEvent& event) override;
  Task<Result<CachedList>> cached_list(const ListQuery& query) override;
  void store_list(const ListQuery& query, const CachedList& built) override;
  void mark_list_slow(const ListQuery& query) override;
  Task<Result<RankPage>> rank_page(const ListQuery& query, RankCursor from, std::int64_t count) override;
  Task<Result<bool>> has_items(const TagName& tag) override;
  Task<Result<std::vector<BucketUpperBound>>> buckets() override;
  Task<Result<std::vector<BucketMember>>> bucket_heads(const std::vector<BucketName>& buckets,
                                                       std::int64_t offset, std::int64_t count) override;
  Task<Result<std::vector<ItemStats>>> stats(const std::vector<ItemId>& items, Ranks ranks) override;

 private:
  redis::Pipeline count_command(const TrackEvent& event, std::int64_t day) const;
  redis::Pipeline count_command(const ViewEvent& event, std::int64_t day) const;
  redis::Pipeline unlisted_command(const TrackEvent& event, bool may_create) const;
  redis::Pipeline unlisted_command(const ViewEvent& event, bool may_create) const;
  Task<Result<void>> check_unverified_quota(std::string_view id, const EventAdmission& admission);
  Task<Result<void>> add_partition_ranks(const std::vector<ItemId>& items, std::vector<ItemStats>& stats);
  void update_unverified_index(std::string_view id, std::string_view reply, std::size_t is_new_field);
  // Appends what an event adds to the views model of an unlisted article (unlisted.lua).
  void append_unlisted_view(redis::Pipeline& out) const;
  void rank_again_if_lost(const ItemId& item, const Error& error);
  // Runs the event's count_command(), or its unlisted_command() if the article is unlisted. The
  // latter takes one more RTT, or three more when it creates the article.
  template <class Event>
  Task<Result<redis::Reply>> run_count_script(const Event& event);
  Task<void> rank_redated(const ItemId& item, UnixSeconds published);
  int unknown_item_policy(const EventAdmission& admission) const;
  std::int64_t today() const;

  redis::Redis& redis_;
  const DeferredWriters writers_;
  const Settings& settings_;
  const redis::Keys keys_;
  const EventIdGenerator new_event_id_;
  std::int64_t day_offset_ = 0;  // Redis' UTC day minus ours, as of the last mismatch
};

// Appends a script that removes those of `members` from the hour's bucket that are dated into
// another hour, and corrects the bucket's bound in the index. Idempotent.
void append_bucket_repair(redis::Pipeline& out, const redis::PartitionKeys& keys, std::int64_t hour,
                          const std::vector<std::string_view>& members = {});

}  // namespace freshet::hot
