// TimelineStore on Redis: one ZSET per timeline (core/redis/keys.h), written by timeline_push.lua
// and follow_join.lua (both sent by follow_store.h), which state the guarantees of each step.
//
// A page reads the range beyond the cursor and then the timeline's marks, in this order and in one
// pipeline, so that items trimmed in between are reported. Items are rendered from the worker's
// card cache; hidden and future-dated items are skipped. Each further step reads a hundred items
// with the same pipeline.
//
// The time a timeline was last read is stored in it in unix seconds. It is updated asynchronously,
// together with the timeline's TTL and the reader's entry in active:{channel}, when it is
// kActivityInterval old (or an eighth of waterfall.ttl if that is shorter), or when items have
// joined since. A timeline that is read therefore keeps at least 7/8 of its TTL, and
// active:{channel} is at most an hour behind, but never older than the newest item the reader has
// read. For readers without a timeline, every page updates active:{channel}. A worker collects
// these updates for kActivityFlushInterval and writes them in one batch.
//
// The reader's newest interactions are read with the page, for its reasons.
//
// In the follow channel a page instead reads the reader's marks of the pulled authors, from a
// cached list at most kPulledListMaxAge old. For authors who published beyond the mark, it reads
// their outboxes, merges them, and pushes the items with follow_join.lua.
//
// Bytes of a timeline by MEMORY USAGE (Redis 7.0) with ids of 8 and 24 bytes: empty 104; 10 items
// 264 and 456; 128 items about 15,900 and 17,900; 500 items about 51,500 and 59,800. Redis packs up
// to 126 items as a listpack. tests/timeline/timeline_store_test.cpp prints and bounds these
// numbers; tests/cost/timeline_test.cpp counts commands.
//
// A deleted item is removed from the timeline, asynchronously, when a page first encounters it.
// With items.unknown = reject, items that were never put or whose hash is gone are not shown.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "core/config/settings.h"
#include "core/items/card_cache.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "core/redis/write_queue.h"
#include "core/timeline/ports.h"

namespace freshet::timeline {

struct TimelineJoin;

inline constexpr seconds kActivityInterval{3600};
inline constexpr milliseconds kPulledListMaxAge{1000};
inline constexpr milliseconds kActivityFlushInterval{1000};

class RedisTimelineStore final : public TimelineStore {
 public:
  // All references must outlive this. `bulk` carries push() only, and may be the same as `redis`.
  // `after`: without it, each reader's activity is written immediately. `pulled_list_max_age`:
  // maximum age of the cached list of pulled authors.
  RedisTimelineStore(redis::Redis& redis, redis::Redis& bulk, redis::WriteQueue& write_queue,
                     items::CardCache& cards, const Settings& settings, redis::Keys keys,
                     redis::RunAfter after = {}, milliseconds pulled_list_max_age = kPulledListMaxAge);

  // 1 RTT. One more if cards are missing, for each further hundred items that are not shown, and,
  // in the follow channel, if the list of pulled authors is too old; two more if any of them
  // published something.
  Task<Result<TimelinePage>> read(const PageQuery& query) override;
  Task<Result<std::vector<bool>>> check_pushable(const std::vector<ItemId>& items) override;
  // Timelines that cannot be written are skipped; the error is returned after all others were
  // served. Repeated items count as duplicates. If there are more than waterfall.max_items distinct
  // items, only the last are pushed, and the others are not counted.
  Task<Result<PushResult>> push(const PushRequest& push) override;
  Task<Result<std::optional<std::string>>> load_reply(const std::string& channel,
                                                      const EventId& event) override;
  Task<Result<void>> store_reply(const std::string& channel, const EventId& event,
                                 const std::string& reply) override;
  // False if the item was not there.
  Task<Result<bool>> remove(const std::string& channel, const ReaderId& reader, const ItemId& item) override;

  // Writes the pending entries of active:{channel}.
  void flush_activity();
  std::size_t pending_activity() const { return pending_activity_; }

 private:
  // Part of a timeline beyond a cursor, and its marks, read right after.
  struct RangeRead {
    std::vector<std::pair<ItemId, std::int64_t>> items;  // nearest first, without the cursor's own item
    bool complete = false;                               // there are no further items
    bool existed = false;                                // the timeline existed
    std::int64_t cut_off_score = 0;                      // highest score that was trimmed
    // kNewer: items newer than the start of the range; kOlder: items not older than the cursor.
    std::int64_t beyond_count = 0;
    bool has_cursor_item = false;           // kOlder: the cursor's own item is still there
    std::int64_t highest_score = 0;         // highest score ever given
    std::int64_t activity_at = 0;           // when the reader's activity was last recorded; 0: never
    std::vector<feed::Interest> interests;  // only in the first read, outside of the follow channel
    // By the reader, within feedback.ttl; only in the first read.
    std::unordered_set<ItemId> dismissed_items;
  };
  struct PageScan;                 // accumulates range reads into a page
  using RangeStart = std::string;  // "+inf", "(score" or "score"
  struct PulledAuthors {
    std::vector<std::pair<std::string, std::int64_t>> authors;  // with the highest score they published
    std::chrono::steady_clock::time_point read_at;
  };

  void append_range_read(redis::Pipeline& out, const PageQuery& query, const RangeStart& from,
                         std::size_t count) const;
  void append_dismissals_read(redis::Pipeline& out, const ReaderId& reader) const;
  static std::unordered_set<ItemId> parse_dismissals(const redis::Reply& reply);
  // Parses the replies from `first_reply` on.
  static Result<RangeRead> parse_range_read(const PageQuery& query, const redis::Replies& replies,
                                            std::size_t first_reply, std::size_t count);
  // `first`: also read the reader's interests.
  Task<Result<RangeRead>> read_range(const PageQuery& query, const RangeStart& from, std::size_t count,
                                     bool first);
  // The first read of the follow channel, after items of pulled authors have been added.
  Task<Result<RangeRead>> read_with_pulled(const PageQuery& query, const RangeStart& from, std::size_t count);
  Task<Result<std::shared_ptr<const PulledAuthors>>> pull_authors();
  Task<Result<void>> read_outboxes(TimelineJoin& join);
  static TimelinePage build_page(const PageQuery& query, PageScan scan);
  void record_activity(const PageQuery& query, const RangeRead& first);

  redis::Redis& redis_;
  redis::Redis& bulk_;
  redis::WriteQueue& write_queue_;
  items::CardCache& cards_;
  const TimelineSettings timeline_settings_;
  const InteractionSettings interaction_settings_;
  const FeedbackSettings feedback_settings_;
  const bool known_only_;
  const redis::Keys keys_;
  const milliseconds pulled_list_max_age_;
  std::shared_ptr<const PulledAuthors> pulled_authors_;  // null: never read
  const bool writes_activity_immediately_;
  redis::FlushTimer activity_timer_;
  std::map<std::string, std::vector<std::string>> activity_;  // readers by channel
  std::size_t pending_activity_ = 0;                          // readers
};

}  // namespace freshet::timeline
