// WaterfallStore on Redis: one ZSET a timeline (core/redis/keys.h), and timeline_push.lua and
// follow_join.lua (both sent by follow_store.h), where the promises of each step stand.
//
// A page is what lies beyond the cursor and then the timeline's marks, in this order, in one
// pipeline: what is cut off in between is told. What is shown comes from the worker's cards, and
// what their items say now, a date ahead included, decides who is left out. Each further step, of a
// hundred items, is a pipeline like the first.
//
// That a timeline was read is noted in it as unix seconds. The note is written anew, behind the
// reply, together with the timeline's TTL and the reader's place in active:{channel}, when it is
// kNotedEvery old (or an eighth of waterfall.ttl, if that is shorter) or something has joined
// since. So a timeline that is read keeps 7/8 of its TTL at least, and active:{channel} is at most
// an hour behind, and never before what the reader has read. Of a reader who has no timeline each
// page is noted.
//
// The reader's newest interactions come with the page, for its reasons.
//
// In the channel of follows the page asks instead for the reader's marks of those authors who are
// pulled, of whom the store has a list that is kPulledAge old at most. Of those who published
// beyond the mark the outboxes are read, merged, and pushed by follow_join.lua.
//
// Bytes of a timeline by MEMORY USAGE (Redis 7.0), ids of 8 and of 24 bytes: of no item 104, of 10
// items 264 and 456, of 128 about 15,900 and 17,900, of 500 about 51,500 and 59,800; up to 126
// items Redis packs them. "a timeline costs Redis so many bytes" in
// tests/timeline/timeline_store_test.cpp prints and bounds them; tests/cost/timeline_test.cpp
// counts commands.
//
// A deleted item leaves the timeline, behind the reply, when a page first comes across it. With
// items.unknown = reject what was never put, or whose hash is gone, is not shown.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/items/card_cache.h"
#include "core/redis/write_queue.h"
#include "core/redis/keys.h"
#include "core/redis/redis.h"
#include "core/timeline/ports.h"

namespace freshet::timeline {

struct TimelineJoin;

inline constexpr seconds kActivityInterval{3600};
inline constexpr milliseconds kPulledListMaxAge{1000};

class RedisTimelineStore final : public TimelineStore {
 public:
  // All must outlive this. `bulk` carries push() only, and may be `redis`. `pulled_age`: how old
  // the list of pulled authors may be.
  RedisTimelineStore(redis::Redis& redis, redis::Redis& bulk, redis::WriteQueue& deferred,
                      items::CardCache& cards, const Settings& settings, redis::Keys keys,
                      milliseconds pulled_list_max_age = kPulledListMaxAge);

  // 1 RTT. One more when cards are missing, for a hundred items that are not shown, and, in the
  // channel of follows, when the list of pulled authors is old; two when they have published
  // something.
  Task<Result<TimelinePage>> read(const PageQuery& query) override;
  Task<Result<std::vector<bool>>> check_pushable(const std::vector<ItemId>& items) override;
  // A timeline that cannot be written is passed over; its error is the answer when all others were
  // served. Items that come again count as duplicates. Of more than waterfall.max_items different
  // ones the last are pushed, and the others count as nothing.
  Task<Result<PushResult>> push(const PushRequest& push) override;
  Task<Result<std::optional<std::string>>> load_reply(const std::string& channel,
                                                    const EventId& event) override;
  Task<Result<void>> store_reply(const std::string& channel, const EventId& event,
                                    const std::string& reply) override;
  // False when it was not there.
  Task<Result<bool>> remove(const std::string& channel, const ReaderId& reader, const ItemId& item) override;

 private:
  // Some of a timeline beyond a cursor, and what its marks say right after.
  struct RangeRead {
    std::vector<std::pair<ItemId, std::int64_t>> items;  // nearest first, without the cursor's own
    bool complete = false;                                    // there are no others
    bool existed = false;                                // the timeline was there
    std::int64_t cut_off_score = 0;                            // the highest score that was
    std::int64_t beyond_count = 0;   // kDown: newer than where the look began; kUp: not older than the cursor
    bool has_cursor_item = false;          // kUp: the cursor's own item is there
    std::int64_t highest_score = 0;  // the highest score ever given
    std::int64_t activity_at = 0;    // when it was noted that the timeline is read; 0: not yet
    std::vector<feed::Interest> interests;  // of the first look outside the channel of follows
  };
  struct PageScan;                // what became of looks, as far as they were needed
  using RangeStart = std::string;  // "+inf", "(score" or "score"
  struct PulledAuthors {
    std::vector<std::pair<std::string, std::int64_t>> authors;  // and the highest score they published
    std::chrono::steady_clock::time_point read_at;
  };

  void append_range_read(redis::Pipeline& out, const PageQuery& query, const RangeStart& from, std::size_t count) const;
  // Of the replies from `at` on.
  static Result<RangeRead> parse_range_read(const PageQuery& query, const redis::Replies& replies, std::size_t first_reply,
                              std::size_t count);
  // `first`: also at what the reader is interested in.
  Task<Result<RangeRead>> read_range(const PageQuery& query, const RangeStart& from, std::size_t count, bool first);
  // The first look, after what pulled authors published has joined.
  Task<Result<RangeRead>> read_with_pulled(const PageQuery& query, const RangeStart& from, std::size_t count);
  Task<Result<std::shared_ptr<const PulledAuthors>>> pull_authors();
  Task<Result<void>> read_outboxes(TimelineJoin& join);
  static TimelinePage build_page(const PageQuery& query, PageScan scan);
  void record_activity(const PageQuery& query, const RangeRead& first);

  redis::Redis& redis_;
  redis::Redis& bulk_;
  redis::WriteQueue& deferred_;
  items::CardCache& cards_;
  const TimelineSettings timeline_settings_;
  const InteractionSettings interaction_settings_;
  const bool known_only_;
  const redis::Keys keys_;
  const milliseconds pulled_list_max_age_;
  std::shared_ptr<const PulledAuthors> pulled_authors_;  // null: never read
};

}  // namespace freshet::timeline
