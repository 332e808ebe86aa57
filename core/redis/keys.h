// Every name in Redis that is ours, with its type and how long it lives. No other file builds a
// name.
//
// Names cannot collide: ids contain no ':' and no braces, and "hll" and "list" are not ids
// (core/base/ids.h).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/config/settings.h"
#include "core/hot/ports.h"
#include "core/readers/ports.h"
#include "core/redis/groups/group_keys.h"
#include "core/redis/groups/groups.h"

namespace freshet::redis {

inline constexpr seconds kEventTtl{
    86400};  // how long an event id is remembered; track.lua and view.lua say it too
inline constexpr milliseconds kListLockTtl{1000};  // a builder that takes longer loses its turn
inline constexpr seconds kRebuildLockTtl{60};      // renewed with every batch
inline constexpr milliseconds kRankTurnTtl{900};
inline constexpr seconds kPendingTtl{8 * 86400};    // as long as a day's seen-filter lives
inline constexpr seconds kSeenEpochTtl{9 * 86400};  // beyond the oldest day of the seen-filter
inline constexpr seconds kJobTtl{86400};            // after its last change
// Longer than any spool may hold what the reader did before.
inline constexpr seconds tombstone_ttl(seconds max_age) { return max_age + seconds(86400); }
inline constexpr std::string_view kRegrouping = "0";  // in the place of a number of groups
inline constexpr int kMostActive = 1'000'000;         // readers of a channel

enum class About : std::uint8_t {
  kNobody,   // no reader can be told from it, or only by a salted hash that stays (user:epoch, user:erased)
  kReader,   // one part of the name says whose it is: the id, the visitor, or what a client made of the id
  kMembers,  // a set or ZSET of such names
};

// The one table of names. `freshetctl check`, backup, and what exports and erases readers go by it.
struct KeyPattern {
  std::string_view pattern;  // without the prefix; "*" for each part that varies, "{*}" in braces
  std::string_view type;     // as TYPE answers
  bool permanent;            // true: has no TTL
  About about;
  std::size_t part = 0;  // kReader: which part between colons, from 0
};
inline constexpr std::array kKeyPatterns{
    KeyPattern{"hot:article:{*}", "hash", true, About::kNobody},    // with a TTL when it was never put
    KeyPattern{"hot:uv:hll:{*}", "string", false, About::kNobody},  // registers of hashes
    KeyPattern{"hot:session:{*}:*", "string", false, About::kReader, 3},
    KeyPattern{"hot:event:{*}:*", "string", false, About::kReader,
               3},  // a client may use its reader's id as an event's
    KeyPattern{"hot:dedup:{*}:*", "string", false, About::kReader, 3},  // likewise as a fingerprint
    KeyPattern{"hot:uv:{*}:*", "set", false, About::kMembers},
    KeyPattern{"hot:view:event:{*}:*", "string", false, About::kReader, 4},
    KeyPattern{"hot:added:{*}", "hash", false, About::kReader, 2},
    KeyPattern{"item:{*}", "hash", true, About::kNobody},
    KeyPattern{"hot:rank", "zset", true, About::kNobody},
    KeyPattern{"hot:rank:next", "zset", true, About::kNobody},
    KeyPattern{"hot:rank:meta", "hash", true, About::kNobody},
    KeyPattern{"hot:rank:lock", "string", false, About::kNobody},
    KeyPattern{"hot:rank:turn", "string", false, About::kNobody},
    KeyPattern{"hot:placed", "hash", true, About::kNobody},
    KeyPattern{"hot:placed:next", "hash", true, About::kNobody},
    KeyPattern{"hot:placed:views", "hash", true, About::kNobody},
    KeyPattern{"hot:unplaced", "set", true, About::kNobody},
    KeyPattern{"hot:score", "zset", true, About::kNobody},
    KeyPattern{"hot:published", "zset", true, About::kNobody},
    KeyPattern{"hot:hidden", "zset", true, About::kNobody},
    KeyPattern{"hot:newest", "zset", true, About::kNobody},
    KeyPattern{"hot:unlisted", "zset", true, About::kNobody},
    KeyPattern{"hot:epoch", "string", true, About::kNobody},
    KeyPattern{"hot:groups", "string", true, About::kNobody},
    KeyPattern{"hot:lost", "string", true, About::kNobody},
    KeyPattern{"hot:current:index", "zset", true, About::kNobody},
    KeyPattern{"hot:current:*", "zset", false, About::kNobody},
    KeyPattern{"tag:*", "set", true, About::kNobody},
    KeyPattern{"feed:cache:{*}", "list", false, About::kReader, 2},
    KeyPattern{"feed:state:{*}", "hash", false, About::kReader, 2},
    KeyPattern{"user:interactions:{*}", "zset", false, About::kReader, 2},
    KeyPattern{"user:earlier:{*}", "string", false, About::kReader, 2},
    KeyPattern{"user:views:topic:{*}", "list", false, About::kReader, 3},
    KeyPattern{"user:views:reply:{*}", "list", false, About::kReader, 3},
    KeyPattern{"user:views:at:{*}", "hash", false, About::kReader, 3},
    KeyPattern{"user:not_interested:{*}", "zset", false, About::kReader, 2},
    KeyPattern{"user:not_interested:why:{*}", "hash", false, About::kReader, 3},
    KeyPattern{"user:events:{*}", "zset", false, About::kReader, 2},
    KeyPattern{"user:epoch:{*}", "string", false, About::kNobody},
    KeyPattern{"user:erased:{*}", "string", false, About::kNobody},
    KeyPattern{"wf:*:{*}", "zset", false, About::kReader, 2},
    KeyPattern{"active:*", "zset", true, About::kMembers},
    KeyPattern{"follow:authors:{*}", "zset", true, About::kReader, 2},
    KeyPattern{"follow:readers:{*}", "zset", true,
               About::kMembers},  // the author in its name is what the site calls them
    KeyPattern{"follow:outbox:{*}", "zset", true, About::kNobody},
    KeyPattern{"follow:pull:{*}", "zset", true, About::kNobody},
    KeyPattern{"follow:pulled", "zset", true, About::kNobody},
    KeyPattern{"job:*", "hash", false, About::kNobody},
    KeyPattern{"job:*:*", "string", false, About::kNobody},
    KeyPattern{"bf:global:*:*", "string", false,
               About::kNobody},  // fingerprints; the epoch makes them unreadable
    KeyPattern{"bf:global:*", "MBbloom--", false, About::kNobody},
    KeyPattern{"recorder:stream", "stream", true,
               About::kNobody},  // the recorder's own business, see core/recorder/eraser.h
    KeyPattern{"recorder:fence", "string", true, About::kNobody},
    KeyPattern{"recorder:lease", "hash", true, About::kNobody},
    KeyPattern{"recorder:spools", "zset", true, About::kNobody},
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
  enum class On : std::uint8_t { kOneRedis, kCluster };
  // `prefix` comes before every name (redis.key_prefix). In a cluster there are `groups` of
  // articles (groups.h), and what all of them share has kShared behind its name; on one Redis there
  // is one group.
  explicit Keys(std::string prefix, On on = On::kOneRedis, unsigned groups = 16)
      : prefix_(std::move(prefix)), shared_(on == On::kCluster ? kShared : ""), on_(on) {
    if (on == On::kCluster) groups_ = groups;
  }
  explicit Keys(const RedisSettings& settings)
      : Keys(settings.key_prefix, settings.is_cluster() ? On::kCluster : On::kOneRedis,
             static_cast<unsigned>(settings.partitions)) {}

  bool in_cluster() const { return on_ == On::kCluster; }
  unsigned groups() const { return groups_; }
  unsigned group_of(std::string_view id) const { return redis::group_of(id, groups_); }
  // A group's part of what is bounded for all, rounded up.
  std::int64_t share_of(std::int64_t whole) const { return (whole + groups_ - 1) / groups_; }
  // Of one group, and of the one that an article is in. Must not outlive this.
  GroupKeys group(unsigned number) const {
    return {prefix_, on_ == On::kCluster ? group_tag(number, groups_) : std::string_view()};
  }
  GroupKeys group_with(std::string_view id) const { return group(group_of(id)); }
  std::vector<GroupKeys> every_group() const;
  // That which a key found in Redis belongs to; of other keys any.
  GroupKeys group_in(std::string_view key) const;
  // Whether a key found in Redis belongs to a group of another number of groups.
  bool of_other_groups(std::string_view key) const;
  // What a row of kKeyPatterns without a part that varies may be called here.
  std::vector<std::string> names_of(const KeyPattern& row) const;

  // Keys of different ids may share a script's call when this is the same for them: always on one
  // Redis; in a cluster, in which it is their slot, rarely.
  unsigned call_of(std::string_view key) const;

  // --- Of one item
  // Hash: its counters, and what counting needs of the item itself (core/hot/article.h). That of an
  // item that was put is permanent, and its counters end with their TTL by what `renewed` and
  // `viewed` say; that of another has the TTL (engagement.counter_ttl, views.counter_ttl: the later
  // end; an hour while nobody vouched for it), and that of a removed item engagement's.
  std::string article(std::string_view id) const { return of_item("hot:article:", id); }
  // HyperLogLog; engagement.counter_ttl since the last PV, renewed once a day
  std::string uv_hll(std::string_view id) const { return of_item("hot:uv:hll:", id); }
  // String, ms; session window
  std::string session(std::string_view id, std::string_view session) const;
  // String, the reply; kEventTtl
  std::string track_event(std::string_view id, std::string_view event) const;
  // String; views.dedup_window
  std::string dedup(std::string_view id, std::string_view fingerprint) const;
  // Set; views.uv_ttl
  std::string uv_day(std::string_view id, UnixSeconds day) const;
  // String, the reply; kEventTtl
  std::string view_event(std::string_view id, std::string_view event) const;
  // Hash; permanent, or engagement.counter_ttl when the item was removed
  std::string item(std::string_view id) const { return of_item("item:", id); }

  // --- Of one visitor
  // Hash: what they added to counters, core/hot/added.h; limits.remember since their last new
  // article
  std::string added(std::string_view visitor) const { return of_item("hot:added:", visitor); }

  // --- Of all items, whichever group they are in
  // Hash, permanent: the schema of all keys (`schema`), and how far the rank keeper's walk is
  // (`cursor`); on one Redis it is GroupKeys::meta() as well
  std::string rank_meta() const { return of_all(":rank:meta"); }
  // String; kRebuildLockTtl
  std::string rank_lock() const { return of_all(":rank:lock"); }
  // String: somebody's turn to look after ranks; kRankTurnTtl
  std::string rank_turn() const { return of_all(":rank:turn"); }
  // String, and the channel it is published on; permanent
  std::string epoch() const { return of_all(":epoch"); }
  // String, permanent, of a cluster: how many groups there are; kRegrouping while they are changed
  std::string group_count() const { return of_all(":groups"); }
  // String, unix ms: Redis lost its items then, and nobody has brought them back (recorder/group.h)
  std::string lost() const { return of_all(":lost"); }
  // String JSON; list.ttl
  std::string list(const hot::ListQuery& query) const;
  // Hash; list.ttl
  std::string list_meta(const hot::ListQuery& query) const;
  // String; kListLockTtl
  std::string list_lock(const hot::ListQuery& query) const;

  // --- Of one reader's feed
  // List of lines of item ids, a page's with blanks between: the buffer; feed.buffer_ttl
  std::string feed_cache(std::string_view reader) const { return of_item("feed:cache:", reader); }
  // Hash: what the buffer is of, and the last pages (core/feed/parts/feed_state.lua);
  // feed.buffer_ttl, kPendingTtl while one is not acknowledged
  std::string feed_state(std::string_view reader) const { return of_item("feed:state:", reader); }

  // --- Of one reader
  // List of item ids, newest first; history.ttl since the last view
  std::string views_of(readers::ViewKind kind, std::string_view reader) const {
    return of_item(kind == readers::ViewKind::kTopic ? "user:views:topic:" : "user:views:reply:", reader);
  }
  // Hash: "t:{item}" of a topic, "r:{item}" of a reply → unix s; as the lists
  std::string views_at(std::string_view reader) const { return of_item("user:views:at:", reader); }
  // ZSET: "{letter}:{item}" (readers::kInteractionKinds) → unix s; interactions.ttl since the last,
  // a day of it less at most
  std::string interactions(std::string_view reader) const { return of_item("user:interactions:", reader); }
  // String: fingerprints of the items of older ones, oldest first
  // (core/readers/reader_put.lua); likewise
  std::string earlier(std::string_view reader) const { return of_item("user:earlier:", reader); }
  // ZSET: item → unix s; feedback.ttl since the last
  std::string not_interested(std::string_view reader) const {
    return of_item("user:not_interested:", reader);
  }
  // Hash: item → reason, where one was given; likewise
  std::string not_interested_why(std::string_view reader) const {
    return of_item("user:not_interested:why:", reader);
  }
  // ZSET: event id → unix s when it was applied; kEventTtl since the last
  std::string reader_events(std::string_view reader) const { return of_item("user:events:", reader); }
  // `hashed`: a salted hash of the reader's id, never the id: it outlives the reader's erasure.
  // String: how often the reader was erased; kSeenEpochTtl since it was last used
  std::string seen_epoch(std::string_view hashed) const { return of_item("user:epoch:", hashed); }
  // String, unix s: the reader was erased then; tombstone_ttl()
  std::string erased(std::string_view hashed) const { return of_item("user:erased:", hashed); }

  // --- Timelines. Scores are unix µs, raised to be strictly increasing within a key; a member
  // whose name begins with ':' is no id but a mark of the key itself, and its score is negative
  // (core/timeline/parts/timeline.lua).
  // ZSET: item → score; waterfall.ttl since it was created or read, an eighth of it less at most
  std::string timeline(std::string_view channel, std::string_view reader) const {
    return of_item("wf:" + std::string(channel) + ":", reader);
  }
  // ZSET: reader → unix s when they last opened the channel, up to an hour ago; the newest
  // kMostActive
  std::string active(std::string_view channel) const { return prefix_ + "active:" + std::string(channel); }
  // ZSET: author → score in follow:pull:{author} up to which the reader's timeline has everything
  std::string authors_of(std::string_view reader) const { return of_item("follow:authors:", reader); }
  // ZSET: follower → score, in the order in which they followed; permanent
  std::string readers_of(std::string_view author) const { return of_item("follow:readers:", author); }
  // ZSET: item → score; the newest fanout.outbox
  std::string outbox(std::string_view author) const { return of_item("follow:outbox:", author); }
  // ZSET: what of it is not pushed; likewise
  std::string pull_outbox(std::string_view author) const { return of_item("follow:pull:", author); }
  // ZSET: author → highest score of their follow:pull; those who have one
  std::string pulled() const { return prefix_ + "follow:pulled"; }

  // Hash: state, done, total, failed; kJobTtl. Of an erasure also `at`, unix ms; tombstone_ttl()
  std::string job(std::string_view id) const { return prefix_ + "job:" + std::string(id); }
  // String, the reply to the push of this id; kEventTtl
  std::string push_event(std::string_view channel, std::string_view event) const {
    return prefix_ + "job:" + std::string(channel) + ":" + std::string(event);
  }

  // --- The seen-filter: one filter a UTC day ("20260306"), cut into shards; gone eight days after
  // it began. String, bits
  std::string seen_shard(std::string_view day, std::string_view shard) const;
  // redisbloom's filter
  std::string seen_day(std::string_view day) const;

  // Hash: which process records, and which database Redis belongs to (core/recorder/lease.h)
  std::string lease() const { return of_shared("recorder:lease"); }

  // ZSET: host → unix ms at which nothing waited in its spools (core/readers/spool_watch.h)
  std::string spools() const { return prefix_ + "recorder:spools"; }

  // Matches hot:article:{id} of every item, for SCAN; and the id in such a name.
  std::string article_pattern() const;
  std::string id_of_article(std::string_view key) const;
  // A key found in Redis without the prefix, and in a cluster without kShared or a group's tag,
  // whatever the number of groups; nullopt when it does not begin with the prefix: somebody else's.
  std::optional<std::string> plain(std::string_view key) const;
  // The row of kKeyPatterns that a key found in Redis belongs to; nullptr: none of ours.
  const KeyPattern* pattern_of(std::string_view key) const;

 private:
  // head{id} and head{id}:tail
  std::string of_item(std::string_view head, std::string_view id) const;
  std::string of_item(std::string_view head, std::string_view id, std::string_view tail) const;
  std::string of_shared(std::string_view head, std::string_view tail = {}) const;
  std::string_view tag_of(std::string_view name) const;
  std::string of_all(std::string_view tail) const { return of_shared("hot", tail); }

  static constexpr std::string_view kShared = ":{all}";

  std::string prefix_;
  std::string_view shared_;
  On on_;
  unsigned groups_ = 1;
};

// The part of a plain name that is number `part` between colons, counted from 0, without braces; ""
// when there are fewer.
std::string_view part_of(std::string_view plain, std::size_t part);

}  // namespace freshet::redis
