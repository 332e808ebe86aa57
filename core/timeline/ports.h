// Storage ports of timelines. timeline_store.h and follow_store.h implement them on Redis. Every
// method is 1 RTT and atomic unless it says otherwise.
//
// Paging invariant: an item joins a timeline at the head, with a score above all scores the
// timeline ever had, and keeps that score. A client that stores the highest and the lowest score it
// has, requests items newer than the former or older than the latter, and then updates only the one
// it used, sees every item that stays in the timeline exactly once and in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/async/task.h"
#include "core/base/ids.h"
#include "core/base/result.h"
#include "core/feed/ports.h"
#include "core/items/card_cache.h"
#include "core/readers/reason.h"

namespace freshet::timeline {

// Scores lie between 0 and this, exclusively.
inline constexpr std::int64_t kScoreEnd = std::int64_t{1} << 53;

enum class Direction : std::uint8_t {
  kFirst,  // newest items
  kNewer,  // newer than the cursor, nearest first, so that no gap opens (下拉)
  kOlder,  // older than the cursor, nearest first (上拉)
};

struct PageQuery {
  std::string channel;  // one of waterfall.channels
  ReaderId reader;
  Direction direction = Direction::kFirst;
  std::int64_t cursor = 0;  // 0..kScoreEnd-1; ignored with kFirst
  int limit = 5;
  // False while Redis is full: pulled items are not copied in and activity is not recorded.
  bool allow_writes = true;
};

struct TimelineEntry {
  ItemId item;
  std::int64_t score = 0;
  items::SharedCard card;  // never null
  readers::Reason reason;  // set by read_page()
};

struct TimelinePage {
  std::vector<TimelineEntry> items;  // newest first; without hidden, deleted and future-dated items
  // Highest and lowest score of the page. If it is empty: the request's cursor, or 0 with kFirst.
  std::int64_t newest_score = 0, oldest_score = 0;
  bool has_more = false;  // exact; there are more items in this direction (kFirst: older ones)
  // Items newer than newest_score, counting hidden ones that were not checked yet. With kNewer, 0
  // if and only if no further item can be served.
  std::int64_t newer_count = 0;
  // Items next to the cursor were trimmed: kOlder, all older ones; kNewer, some of the newer ones.
  bool trimmed = false;
  // For reasons. Empty in the follow channel.
  std::vector<feed::Interest> interests;          // newest first
  std::vector<items::SharedCard> interest_cards;  // cards of `interests`, in order
};

struct PushRequest {
  std::string channel;
  std::vector<ItemId> items;  // the last becomes the newest
  std::vector<ReaderId> readers;
};
struct PushResult {
  std::int64_t pushed = 0;      // items new to a timeline, summed over timelines
  std::int64_t duplicates = 0;  // items that were already there and kept their position
};

class TimelineStore {
 public:
  virtual ~TimelineStore() = default;
  // In the follow channel, first copies items that pulled authors have published since to the head
  // of the timeline. Renews the timeline's TTL and records that the reader is active, unless they
  // are anonymous. May take more than 1 RTT; see the implementation.
  virtual Task<Result<TimelinePage>> read(const PageQuery& query) = 0;
  // For each item: whether it may be pushed. Hidden and deleted items may not; with items.unknown =
  // reject unknown ones may not either.
  virtual Task<Result<std::vector<bool>>> check_pushable(const std::vector<ItemId>& items) = 0;
  // 1 RTT per 500 readers, on the bulk connection; atomic per timeline. After an error some readers
  // were served; repeating the push serves the rest.
  virtual Task<Result<PushResult>> push(const PushRequest& push) = 0;
  // The reply stored for this event and channel within the last 24 hours; nullopt if none.
  virtual Task<Result<std::optional<std::string>>> load_reply(const std::string& channel,
                                                              const EventId& event) = 0;
  virtual Task<Result<void>> store_reply(const std::string& channel, const EventId& event,
                                         const std::string& reply) = 0;
  virtual Task<Result<bool>> remove(const std::string& channel, const ReaderId& reader,
                                    const ItemId& item) = 0;
};

// Follows, and authors' publications. Everything here belongs to waterfall.follow_channel.
// Up to 3 RTT each except followed_authors(). follow_store.h describes the steps, none of which
// loses data.
class FollowStore {
 public:
  virtual ~FollowStore() = default;
  // Adds the author's newest waterfall.backfill items to the head of the reader's timeline.
  // Following again changes nothing. The recorder writes the follow to SQLite. Errors: kConflict
  // "too_many_follows"; kUnavailable "stream_full".
  virtual Task<Result<void>> follow(const ReaderId& reader, const AuthorId& author) = 0;
  // Removes the items that are still in the author's outboxes from the reader's timeline, even if
  // another followed author published them too. Errors: kUnavailable "stream_full".
  virtual Task<Result<void>> unfollow(const ReaderId& reader, const AuthorId& author) = 0;
  // Sorted bytewise.
  virtual Task<Result<std::vector<AuthorId>>> followed_authors(const ReaderId& reader) = 0;
  // Adds items to the author's outbox; the last becomes the newest. With up to fanout.max_push
  // followers, a job of the recorder pushes them to the current followers. With more, readers pull
  // them and the job is complete at once. Returns the job's id. Errors: kUnavailable "stream_full".
  virtual Task<Result<std::string>> publish(const AuthorId& author, const std::vector<ItemId>& items) = 0;
};

}  // namespace freshet::timeline
