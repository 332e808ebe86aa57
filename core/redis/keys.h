// Every name in Redis that is ours, with its type and how long it lives. No other file builds a name.
//
// Names cannot collide: ids contain no ':' and no braces, and "hll" and "list" are not ids (core/base/ids.h).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/hot/ports.h"
#include "core/readers/ports.h"

namespace freshet::redis {

inline constexpr seconds kEventTtl{
    86400};  // how long an event id is remembered; track.lua and view.lua say it too
inline constexpr milliseconds kListLockTtl{1000};   // a builder that takes longer loses its turn
inline constexpr seconds kRebuildLockTtl{60};       // renewed with every batch
inline constexpr seconds kPendingTtl{8 * 86400};    // as long as a day's seen-filter lives
inline constexpr seconds kSeenEpochTtl{9 * 86400};  // beyond the oldest day of the seen-filter
inline constexpr seconds kJobTtl{86400};            // after its last change
inline constexpr int kMostActive = 1'000'000;       // readers of a channel

enum class About : std::uint8_t {
  kNobody,   // no reader can be told from it, or only by a salted hash that stays (user:epoch)
  kReader,   // one part of the name says whose it is: the id, the visitor, or what a client made of the id
  kMembers,  // a set or ZSET of such names
};

// The one table of names. `freshetctl check`, backup, and what exports and erases readers go by it.
struct KeyPattern {
  std::string_view pattern;  // without the prefix; "*" for each part that varies
  std::string_view type;     // as TYPE answers
  bool permanent;            // true: has no TTL
  About about;
  std::size_t part = 0;  // kReader: which part between colons, from 0
};
inline constexpr std::array kKeyPatterns{
    KeyPattern{"hot:pv:*", "string", false, About::kNobody},
    KeyPattern{"hot:uv:hll:*", "string", false, About::kNobody},  // registers of hashes
    KeyPattern{"hot:dwell:sum:*", "string", false, About::kNobody},
    KeyPattern{"hot:dwell:cnt:*", "string", false, About::kNobody},
    KeyPattern{"hot:first_ts:*", "string", false, About::kNobody},
    KeyPattern{"hot:session:*:*", "string", false, About::kReader, 3},
    KeyPattern{"hot:event:*:*", "string", false, About::kReader,
               3},  // a client may use its reader's id as an event's
    KeyPattern{"hot:views:*", "hash", false, About::kNobody},
    KeyPattern{"hot:dedup:*:*", "string", false, About::kReader, 3},  // likewise as a fingerprint
    KeyPattern{"hot:uv:*:*", "set", false, About::kMembers},
    KeyPattern{"hot:view:event:*:*", "string", false, About::kReader, 4},
    KeyPattern{"hot:added:*", "hash", false, About::kReader, 2},
    KeyPattern{"item:*", "hash", true, About::kNobody},
    KeyPattern{"hot:rank", "zset", true, About::kNobody},
    KeyPattern{"hot:rank:next", "zset", true, About::kNobody},
    KeyPattern{"hot:rank:meta", "hash", true, About::kNobody},
    KeyPattern{"hot:rank:lock", "string", false, About::kNobody},
    KeyPattern{"hot:score", "zset", true, About::kNobody},
    KeyPattern{"hot:published", "zset", true, About::kNobody},
    KeyPattern{"hot:hidden", "zset", true, About::kNobody},
    KeyPattern{"hot:newest", "zset", true, About::kNobody},
    KeyPattern{"hot:epoch", "string", true, About::kNobody},
    KeyPattern{"hot:lost", "string", true, About::kNobody},
    KeyPattern{"hot:current:index", "zset", true, About::kNobody},
    KeyPattern{"hot:current:*", "zset", false, About::kNobody},
    KeyPattern{"tag:*", "set", true, About::kNobody},
    KeyPattern{"feed:cache:*", "list", false, About::kReader, 2},
    KeyPattern{"feed:state:*", "hash", false, About::kReader, 2},
    KeyPattern{"feed:pending:*", "zset", false, About::kReader, 2},
    KeyPattern{"feed:page:*:*", "string", false, About::kReader, 2},
    KeyPattern{"user:interactions:*", "zset", false, About::kReader, 2},
    KeyPattern{"user:earlier:*", "string", false, About::kReader, 2},
    KeyPattern{"user:views:topic:*", "list", false, About::kReader, 3},
    KeyPattern{"user:views:reply:*", "list", false, About::kReader, 3},
    KeyPattern{"user:views:at:*", "hash", false, About::kReader, 3},
    KeyPattern{"user:not_interested:*", "zset", false, About::kReader, 2},
    KeyPattern{"user:not_interested:why:*", "hash", false, About::kReader, 3},
    KeyPattern{"user:events:*", "zset", false, About::kReader, 2},
    KeyPattern{"user:epoch:*", "string", false, About::kNobody},
    KeyPattern{"wf:*:*", "zset", false, About::kReader, 2},
    KeyPattern{"active:*", "zset", true, About::kMembers},
    KeyPattern{"follow:authors:*", "zset", true, About::kReader, 2},
    KeyPattern{"follow:readers:*", "zset", true,
               About::kMembers},  // the author in its name is what the site calls them
    KeyPattern{"follow:outbox:*", "zset", true, About::kNobody},
    KeyPattern{"follow:pull:*", "zset", true, About::kNobody},
    KeyPattern{"follow:pulled", "zset", true, About::kNobody},
    KeyPattern{"job:*", "hash", false, About::kNobody},
    KeyPattern{"job:*:*", "string", false, About::kNobody},
    KeyPattern{"bf:global:*:*", "string", false,
               About::kNobody},  // fingerprints; the epoch makes them unreadable
    KeyPattern{"bf:global:*", "MBbloom--", false, About::kNobody},
    KeyPattern{"recorder:stream", "stream", true,
               About::kNobody},  // the recorder's own business, see core/recorder/eraser.h
    KeyPattern{"hot:list", "string", false, About::kNobody},
    KeyPattern{"hot:list:meta", "hash", false, About::kNobody},
    KeyPattern{"hot:list:lock", "string", false, About::kNobody},
    KeyPattern{"hot:list:*:*:*:*", "string", false, About::kNobody},
    KeyPattern{"hot:list:meta:*:*:*:*", "hash", false, About::kNobody},
    KeyPattern{"hot:list:lock:*:*:*:*", "string", false, About::kNobody},
};

// Whether a score of hot:hidden is that of an item which is only dated ahead.
inline bool is_embargo(double until) { return until != std::floor(until); }

class Keys {
 public:
  // `prefix` comes before every name (redis.key_prefix).
  explicit Keys(std::string prefix) : prefix_(std::move(prefix)) {}

  // --- Of one item: counters (engagement.counter_ttl since the last PV, renewed once a day)
  std::string pv(std::string_view id) const { return of_item("hot:pv:", id); }                // String
  std::string uv_hll(std::string_view id) const { return of_item("hot:uv:hll:", id); }        // HyperLogLog
  std::string dwell_sum(std::string_view id) const { return of_item("hot:dwell:sum:", id); }  // String, ms
  std::string dwell_count(std::string_view id) const { return of_item("hot:dwell:cnt:", id); }
  std::string first_ts(std::string_view id) const { return of_item("hot:first_ts:", id); }  // String, unix s
  std::string session(std::string_view id, std::string_view session) const;    // String, ms; session window
  std::string track_event(std::string_view id, std::string_view event) const;  // String, the reply; kEventTtl
  std::string views(std::string_view id) const {
    return of_item("hot:views:", id);
  }                                                                            // Hash; views.counter_ttl
  std::string dedup(std::string_view id, std::string_view fingerprint) const;  // String; views.dedup_window
  std::string uv_day(std::string_view id, UnixSeconds day) const;              // Set; views.uv_ttl
  std::string view_event(std::string_view id, std::string_view event) const;   // String, the reply; kEventTtl
  std::string item(std::string_view id) const {
    return of_item("item:", id);
  }  // Hash; permanent, or the TTL of counters when the item was never put

  // --- Of one visitor
  std::string added(std::string_view visitor) const {
    return of_item("hot:added:", visitor);
  }  // Hash: what they added to counters, store/added.h; limits.remember since their last new article

  // --- Of all items: permanent, each capped by list.max_members or by the number of items
  std::string rank() const { return of_all(":rank"); }            // ZSET of rank keys
  std::string rank_next() const { return of_all(":rank:next"); }  // ZSET while rebuilding
  std::string rank_meta() const { return of_all(":rank:meta"); }  // Hash: half-life and weights
  std::string rank_lock() const { return of_all(":rank:lock"); }  // String; kRebuildLockTtl
  std::string score() const { return of_all(":score"); }          // ZSET, mode = accumulate
  std::string published() const { return of_all(":published"); }  // ZSET of publish times
  // ZSET of what must not be shown → unix s at which that ends: +inf of a hidden item; of a deleted one when
  // it is forgotten; of one that is dated ahead half a second before its date (of all times whole seconds are
  // compared), and it alone stands in ranks, hot:published, hot:newest and tags as well.
  std::string hidden() const { return of_all(":hidden"); }
  std::string newest() const {
    return of_all(":newest");
  }  // ZSET by date: the 1,000 newest items that were put and are not hidden, and all that are dated ahead
  std::string epoch() const { return of_all(":epoch"); }  // String, and the channel it is published on
  std::string lost() const {
    return of_all(":lost");
  }  // String, unix ms: Redis lost its items then, and
     // nobody has brought them back (recorder/group.h)
  std::string current_index() const { return of_all(":current:index"); }  // ZSET hour → best total
  std::string current(std::int64_t hour) const;              // ZSET; views.counter_ttl since its last view
  std::string tag(std::string_view tag) const;               // Set of item ids
  std::string list(const hot::ListQuery& query) const;       // String JSON; list.ttl
  std::string list_meta(const hot::ListQuery& query) const;  // Hash; list.ttl
  std::string list_lock(const hot::ListQuery& query) const;  // String; kListLockTtl

  // --- Of one reader's feed (seed 002); all of one slot
  std::string feed_cache(std::string_view reader) const {
    return of_item("feed:cache:", reader);
  }  // List of item ids: the buffer; feed.buffer_ttl
  std::string feed_state(std::string_view reader) const {
    return of_item("feed:state:", reader);
  }  // Hash: the buffer's generation, sequence, query; feed.buffer_ttl
  std::string feed_pending(std::string_view reader) const {
    return of_item("feed:pending:", reader);
  }  // ZSET: handed out and not yet (or only just) in the filter; kPendingTtl
  std::string feed_page(std::string_view reader, std::string_view request) const {
    return of_item("feed:page:", reader, request);
  }  // String: a page as it was handed out; feed.replay_window

  // --- Of one reader (seed 000); all of one slot
  std::string views_of(readers::ViewKind kind, std::string_view reader) const {
    return of_item(kind == readers::ViewKind::kTopic ? "user:views:topic:" : "user:views:reply:", reader);
  }  // List of item ids, newest first; history.ttl since the last view
  std::string views_at(std::string_view reader) const {
    return of_item("user:views:at:", reader);
  }  // Hash: "t:{item}" of a topic, "r:{item}" of a reply → unix s; as the lists
  std::string interactions(std::string_view reader) const {
    return of_item("user:interactions:", reader);
  }  // ZSET: "{letter}:{item}" (rank::kInteractionKinds) → unix s; interactions.ttl since the last
  std::string earlier(std::string_view reader) const {
    return of_item("user:earlier:", reader);
  }  // String: fingerprints of the items of older ones, oldest first (lua/parts/reader_trim.lua); likewise
  std::string not_interested(std::string_view reader) const {
    return of_item("user:not_interested:", reader);
  }  // ZSET: item → unix s; feedback.ttl since the last
  std::string not_interested_why(std::string_view reader) const {
    return of_item("user:not_interested:why:", reader);
  }  // Hash: item → reason, where one was given; likewise
  std::string reader_events(std::string_view reader) const {
    return of_item("user:events:", reader);
  }  // ZSET: event id → unix s when it was applied; kEventTtl since the last
  // `hashed`: a salted hash of the reader's id, never the id: it outlives the reader's erasure.
  std::string seen_epoch(std::string_view hashed) const {
    return of_item("user:epoch:", hashed);
  }  // String: how often the reader was erased; kSeenEpochTtl since it was last used

  // --- Timelines (seed 004). Scores are unix ms, raised to be strictly increasing within a key; a member
  // whose name begins with ':' is no id but a mark of the key itself, and its score is negative
  // (lua/parts/timeline.lua).
  std::string timeline(std::string_view channel, std::string_view reader) const {
    return of_item("wf:" + std::string(channel) + ":", reader);
  }  // ZSET: item → score; waterfall.ttl since it was created or read
  std::string active(std::string_view channel) const {
    return prefix_ + "active:" + std::string(channel);
  }  // ZSET: reader → unix s when they last opened the channel; the newest kMostActive
  std::string authors_of(std::string_view reader) const {
    return of_item("follow:authors:", reader);
  }  // ZSET: author → score in follow:pull:{author} up to which the reader's timeline has everything
  std::string readers_of(std::string_view author) const {
    return of_item("follow:readers:", author);
  }  // ZSET: follower → score, in the order in which they followed; permanent
  std::string outbox(std::string_view author) const {
    return of_item("follow:outbox:", author);
  }  // ZSET: item → score; the newest fanout.outbox
  std::string pull_outbox(std::string_view author) const {
    return of_item("follow:pull:", author);
  }  // ZSET: what of it is not pushed; likewise
  std::string pulled() const {
    return prefix_ + "follow:pulled";
  }  // ZSET: author → highest score of their follow:pull; those who have one

  std::string job(std::string_view id) const {
    return prefix_ + "job:" + std::string(id);
  }  // Hash: state, done, total, failed; kJobTtl
  std::string push_event(std::string_view channel, std::string_view event) const {
    return prefix_ + "job:" + std::string(channel) + ":" + std::string(event);
  }  // String, the reply to the push of this id; kEventTtl

  // --- The seen-filter: one filter a UTC day ("20260306"), cut into shards; gone eight days after it began.
  std::string seen_shard(std::string_view day, std::string_view shard) const;  // String, bits
  std::string seen_day(std::string_view day) const;                            // redisbloom's filter

  std::string stream() const {
    return prefix_ + "recorder:stream";
  }  // Stream for the recorder; stream.max_len

  // Matches hot:pv:{id} of every item, for SCAN; and the id in such a name.
  std::string pv_pattern() const;
  std::string id_of_pv(std::string_view key) const;
  // A key found in Redis without prefix and braces; "" when it does not begin with the prefix.
  std::string plain(std::string_view key) const;
  // The row of kKeyPatterns that a key found in Redis belongs to; nullptr: none of ours.
  const KeyPattern* pattern_of(std::string_view key) const;

 private:
  std::string of_item(std::string_view head, std::string_view id) const;
  std::string of_item(std::string_view head, std::string_view id, std::string_view tail) const;
  std::string of_all(std::string_view tail) const;

  std::string prefix_;
};

}  // namespace freshet::redis
