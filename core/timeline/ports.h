// What timelines need of storage. timeline_store.h and follow_store.h implement it on Redis. Every
// method is 1 RTT and atomic unless it says otherwise.
//
// The law: whatever joins a timeline joins at its head, with a score above every one it ever had,
// and keeps it. So a client that keeps the highest and the lowest score it has, asks for what is
// newer than the one or older than the other, and changes only the one it asked about, sees
// everything that stays exactly once, in order.
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

inline constexpr std::int64_t kScoreEnd = std::int64_t{1} << 53;  // scores are below it, and above 0

enum class Direction : std::uint8_t {
  kFirst,  // the newest
  kNewer,   // newer than the cursor, nearest first, so that no gap opens (下拉)
  kOlder,     // older than the cursor, nearest first (上拉)
};

struct PageQuery {
  std::string channel;  // one of waterfall.channels
  ReaderId reader;
  Direction direction = Direction::kFirst;
  std::int64_t cursor = 0;  // the cursor, 0..kScoreEnd-1; kFirst: ignored
  int limit = 5;
  bool allow_writes = true;  // false: Redis has no room; nothing is copied in, nor noted
};

struct TimelineEntry {
  ItemId item;
  std::int64_t score = 0;
  items::SharedCard card;  // never null
  readers::Reason reason;  // of read_page(): why it is there
};

struct TimelinePage {
  std::vector<TimelineEntry> items;  // newest first; none is hidden, deleted or dated ahead
  // The highest and the lowest score of the page; of an empty one the cursor that came, of an empty
  // first 0.
  std::int64_t newest_score = 0, oldest_score = 0;
  bool has_more = false;  // there is more in this direction (kFirst: older); exact
  // How many are newer than `drop`; hidden ones that were not looked at yet count. 0 iff there is
  // none that would be served, when the direction is kDown.
  std::int64_t newer_count = 0;
  bool trimmed = false;  // what lay next to the cursor was cut off: kUp, all older; kDown, some of the newer
  // For reasons; none in the channel of follows.
  std::vector<feed::Interest> interests;  // the reader's newest
  std::vector<items::SharedCard> interest_cards;   // the interests' cards, in order
};

struct PushRequest {
  std::string channel;
  std::vector<ItemId> items;  // the last becomes the newest
  std::vector<ReaderId> readers;
};
struct PushResult {
  std::int64_t pushed = 0;      // items new to a timeline, summed over the timelines
  std::int64_t duplicates = 0;  // that were there and kept their place
};

class TimelineStore {
 public:
  virtual ~TimelineStore() = default;
  // Reading the follow channel first copies what pulled authors published since, to the timeline's
  // head. Renews the timeline's TTL, and notes that the reader is active. More than 1 RTT where the
  // store says so.
  virtual Task<Result<TimelinePage>> read(const PageQuery& query) = 0;
  // Which of them can be pushed: not hidden or deleted, and with items.unknown = reject known.
  virtual Task<Result<std::vector<bool>>> check_pushable(const std::vector<ItemId>& items) = 0;
  // 1 RTT for every 500 readers, over the connection for bulk; atomic for each timeline. After an
  // error some were served, and the same push again serves the rest.
  virtual Task<Result<PushResult>> push(const PushRequest& push) = 0;
  // What remember_reply() was given for this event and channel within the last 24 hours; nullopt:
  // nothing.
  virtual Task<Result<std::optional<std::string>>> load_reply(const std::string& channel,
                                                            const EventId& event) = 0;
  virtual Task<Result<void>> store_reply(const std::string& channel, const EventId& event,
                                            const std::string& reply) = 0;
  virtual Task<Result<bool>> remove(const std::string& channel, const ReaderId& reader,
                                    const ItemId& item) = 0;
};

// Who follows whom, and what authors publish. All of it belongs to waterfall.follow_channel. Up to
// 3 RTT each but authors_of(); follow_store.h says in which steps, none of which loses anything.
class FollowStore {
 public:
  virtual ~FollowStore() = default;
  // The author's newest waterfall.backfill items join the head of the reader's timeline. Following
  // again changes nothing. The recorder keeps it in SQLite. Errors: kConflict "too_many_follows";
  // kUnavailable "stream_full".
  virtual Task<Result<void>> follow(const ReaderId& reader, const AuthorId& author) = 0;
  // Takes what the author's outboxes still hold out of the reader's timeline, also what somebody
  // else who is followed published as well. Errors: kUnavailable "stream_full".
  virtual Task<Result<void>> unfollow(const ReaderId& reader, const AuthorId& author) = 0;
  virtual Task<Result<std::vector<AuthorId>>> followed_authors(const ReaderId& reader) = 0;  // bytewise
  // Puts items into the author's outbox; the last becomes the newest. Up to fanout.max_push
  // followers a job of the recorder pushes them to those who follow now; beyond, their readers pull
  // them, and the job is done at once. Returns the job's id. Errors: kUnavailable "stream_full".
  virtual Task<Result<std::string>> publish(const AuthorId& author, const std::vector<ItemId>& items) = 0;
};

}  // namespace freshet::timeline
