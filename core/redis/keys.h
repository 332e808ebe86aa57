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
#include "core/redis/partitions/partition_keys.h"
#include "core/redis/partitions/partitions.h"

namespace freshet::redis {

inline constexpr seconds kEventTtl{
    86400};  // how long an event id is remembered; track.lua and view.lua say it too
inline constexpr milliseconds kListLockTtl{1000};  // a builder that takes longer loses its turn
inline constexpr seconds kRebuildLockTtl{60};      // renewed with every batch
inline constexpr milliseconds kRankMaintenanceLockTtl{900};
inline constexpr seconds kPendingTtl{8 * 86400};    // as long as a day's seen-filter lives
inline constexpr seconds kSeenEpochTtl{9 * 86400};  // beyond the oldest day of the seen-filter
inline constexpr seconds kJobTtl{86400};            // after its last change
// Longer than any spool may hold what the reader did before.
inline constexpr seconds tombstone_ttl(seconds max_age) { return max_age + seconds(86400); }
inline constexpr std::string_view kRepartitioning = "0";  // in the place of a number of groups
inline constexpr int kMaxActiveReaders = 1'000'000;         // readers of a channel

enum class Subject : std::uint8_t {
  kNone,   // no reader can be told from it, or only by a salted hash that stays (user:epoch, user:erased)
  kReader,   // one part of the name says whose it is: the id, the visitor, or what a client made of the id
  kMembers,  // a set or ZSET of such names
};

// The one table of names. `freshetctl check`, backup, and what exports and erases readers go by it.
struct KeyPattern {
  std::string_view pattern;  // without the prefix; "*" for each part that varies, "{*}" in braces
  std::string_view type;     // as TYPE answers
  bool permanent;            // true: has no TTL
  Subject subject;
  std::size_t segment = 0;  // kReader: which part between colons, from 0
};
inline constexpr std::array kKeyPatterns{
    KeyPattern{"hot:article:{*}", "hash", true, Subject::kNone},    // with a TTL when it was never put
    KeyPattern{"hot:uv:hll:{*}", "string", false, Subject::kNone},  // registers of hashes
    KeyPattern{"hot:session:{*}:*", "string", false, Subject::kReader, 3},
    KeyPattern{"hot:event:{*}:*", "string", false, Subject::kReader,
               3},  // a client may use its reader's id as an event's
    KeyPattern{"hot:dedup:{*}:*", "string", false, Subject::kReader, 3},  // likewise as a fingerprint
    KeyPattern{"hot:uv:{*}:*", "set", false, Subject::kMembers},
    KeyPattern{"hot:view:event:{*}:*", "string", false, Subject::kReader, 4},
    KeyPattern{"hot:added:{*}", "hash", false, Subject::kReader, 2},
    KeyPattern{"item:{*}", "hash", true, Subject::kNone},
    KeyPattern{"hot:rank", "zset", true, Subject::kNone},
    KeyPattern{"hot:rank:next", "zset", true, Subject::kNone},
    KeyPattern{"hot:rank:meta", "hash", true, Subject::kNone},
    KeyPattern{"hot:rank:lock", "string", false, Subject::kNone},
    KeyPattern{"hot:rank:turn", "string", false, Subject::kNone},
    KeyPattern{"hot:placed", "hash", true, Subject::kNone},
    KeyPattern{"hot:placed:next", "hash", true, Subject::kNone},
    KeyPattern{"hot:placed:views", "hash", true, Subject::kNone},
    KeyPattern{"hot:unplaced", "set", true, Subject::kNone},
    KeyPattern{"hot:score", "zset", true, Subject::kNone},
    KeyPattern{"hot:published", "zset", true, Subject::kNone},
    KeyPattern{"hot:hidden", "zset", true, Subject::kNone},
    KeyPattern{"hot:newest", "zset", true, Subject::kNone},
    KeyPattern{"hot:unlisted", "zset", true, Subject::kNone},
    KeyPattern{"hot:epoch", "string", true, Subject::kNone},
    KeyPattern{"hot:groups", "string", true, Subject::kNone},
    KeyPattern{"hot:lost", "string", true, Subject::kNone},
    KeyPattern{"hot:current:index", "zset", true, Subject::kNone},
    KeyPattern{"hot:current:*", "zset", false, Subject::kNone},
    KeyPattern{"tag:*", "set", true, Subject::kNone},
    KeyPattern{"feed:cache:{*}", "list", false, Subject::kReader, 2},
    KeyPattern{"feed:state:{*}", "hash", false, Subject::kReader, 2},
    KeyPattern{"user:interactions:{*}", "zset", false, Subject::kReader, 2},
    KeyPattern{"user:earlier:{*}", "string", false, Subject::kReader, 2},
    KeyPattern{"user:views:topic:{*}", "list", false, Subject::kReader, 3},
    KeyPattern{"user:views:reply:{*}", "list", false, Subject::kReader, 3},
    KeyPattern{"user:views:at:{*}", "hash", false, Subject::kReader, 3},
    KeyPattern{"user:not_interested:{*}", "zset", false, Subject::kReader, 2},
    KeyPattern{"user:not_interested:why:{*}", "hash", false, Subject::kReader, 3},
    KeyPattern{"user:events:{*}", "zset", false, Subject::kReader, 2},
    KeyPattern{"user:epoch:{*}", "string", false, Subject::kNone},
    KeyPattern{"user:erased:{*}", "string", false, Subject::kNone},
    KeyPattern{"wf:*:{*}", "zset", false, Subject::kReader, 2},
    KeyPattern{"active:*", "zset", true, Subject::kMembers},
    KeyPattern{"follow:authors:{*}", "zset", true, Subject::kReader, 2},
    KeyPattern{"follow:readers:{*}", "zset", true,
               Subject::kMembers},  // the author in its name is what the site calls them
    KeyPattern{"follow:outbox:{*}", "zset", true, Subject::kNone},
    KeyPattern{"follow:pull:{*}", "zset", true, Subject::kNone},
    KeyPattern{"follow:pulled", "zset", true, Subject::kNone},
    KeyPattern{"job:*", "hash", false, Subject::kNone},
    KeyPattern{"job:*:*", "string", false, Subject::kNone},
    KeyPattern{"bf:global:*:*", "string", false,
               Subject::kNone},  // fingerprints; the epoch makes them unreadable
    KeyPattern{"bf:global:*", "MBbloom--", false, Subject::kNone},
    KeyPattern{"recorder:stream", "stream", true,
               Subject::kNone},  // the recorder's own business, see core/recorder/erasure_worker.h
    KeyPattern{"recorder:fence", "string", true, Subject::kNone},
    KeyPattern{"recorder:lease", "hash", true, Subject::kNone},
    KeyPattern{"recorder:spools", "zset", true, Subject::kNone},
    KeyPattern{"hot:list", "string", false, Subject::kNone},
    KeyPattern{"hot:list:meta", "hash", false, Subject::kNone},
    KeyPattern{"hot:list:lock", "string", false, Subject::kNone},
    KeyPattern{"hot:list:*:*:*:*", "string", false, Subject::kNone},
    KeyPattern{"hot:list:meta:*:*:*:*", "hash", false, Subject::kNone},
    KeyPattern{"hot:list:lock:*:*:*:*", "string", false, Subject::kNone},
};

// Whether a score of hot:hidden is that of an item which is only dated ahead.
inline bool is_embargo(double until) { return until != std::floor(until); }

class Keys {
 public:
  enum class Topology : std::uint8_t { kStandalone, kCluster };
  // `prefix` comes before every name (redis.key_prefix). In a cluster there are `groups` of
  // articles (groups.h), and what all of them share has kShared behind its name; on one Redis there
  // is one group.
  explicit Keys(std::string prefix, Topology topology = Topology::kStandalone, unsigned partition_count = 16)
      : prefix_(std::move(prefix)), shared_suffix_(topology == Topology::kCluster ? kSharedHashTag : ""), topology_(topology) {
    if (topology == Topology::kCluster) partition_count_ = partition_count;
  }
  explicit Keys(const RedisSettings& settings)
      : Keys(settings.key_prefix, settings.is_cluster() ? Topology::kCluster : Topology::kStandalone,
             static_cast<unsigned>(settings.partitions)) {}

  bool in_cluster() const { return topology_ == Topology::kCluster; }
  unsigned partition_count() const { return partition_count_; }
  unsigned partition_of(std::string_view id) const { return redis::partition_of(id, partition_count_); }
  // A group's part of what is bounded for all, rounded up.
  std::int64_t per_partition(std::int64_t total) const { return (total + partition_count_ - 1) / partition_count_; }
  // Of one group, and of the one that an article is in. Must not outlive this.
  PartitionKeys partition(unsigned number) const {
    return {prefix_, topology_ == Topology::kCluster ? partition_hash_tag(number, partition_count_) : std::string_view()};
  }
  PartitionKeys partition_for(std::string_view id) const { return partition(partition_of(id)); }
  std::vector<PartitionKeys> partitions() const;
  // That which a key found in Redis belongs to; of other keys any.
  PartitionKeys partition_in_key(std::string_view key) const;
  // Whether a key found in Redis belongs to a group of another number of groups.
  bool has_other_partition_count(std::string_view key) const;
  // What a row of kKeyPatterns without a part that varies may be called here.
  std::vector<std::string> names_of(const KeyPattern& row) const;

  // Keys of different ids may share a script's call when this is the same for them: always on one
  // Redis; in a cluster, in which it is their slot, rarely.
  unsigned slot_or_zero(std::string_view key) const;

  // --- Of one item
  // Hash: its counters, and what counting needs of the item itself (core/hot/article.h). That of an
  // item that was put is permanent, and its counters end with their TTL by what `renewed` and
  // `viewed` say; that of another has the TTL (engagement.counter_ttl, views.counter_ttl: the later
  // end; an hour while nobody vouched for it), and that of a removed item engagement's.
  std::string article(std::string_view id) const { return item_key("hot:article:", id); }
  // HyperLogLog; engagement.counter_ttl since the last PV, renewed once a day
  std::string uv_hll(std::string_view id) const { return item_key("hot:uv:hll:", id); }
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
  std::string item(std::string_view id) const { return item_key("item:", id); }

  // --- Of one visitor
  // Hash: what they added to counters, core/hot/contributions.h; limits.contribution_ttl since their last new
  // article
  std::string contributions(std::string_view visitor) const { return item_key("hot:added:", visitor); }

  // --- Of all items, whichever group they are in
  // Hash, permanent: the schema of all keys (`schema`), and how far the rank keeper's walk is
  // (`cursor`); on one Redis it is GroupKeys::meta() as well
  std::string rank_meta() const { return shared_hot_key(":rank:meta"); }
  // String; kRebuildLockTtl
  std::string rank_rebuild_lock() const { return shared_hot_key(":rank:lock"); }
  // String: somebody's turn to look after ranks; kRankTurnTtl
  std::string rank_maintenance_lock() const { return shared_hot_key(":rank:turn"); }
  // String, and the channel it is published on; permanent
  std::string epoch() const { return shared_hot_key(":epoch"); }
  // String, permanent, of a cluster: how many groups there are; kRegrouping while they are changed
  std::string partition_count_key() const { return shared_hot_key(":groups"); }
  // String, unix ms: Redis lost its items then, and nobody has brought them back (recorder/group.h)
  std::string data_lost_at() const { return shared_hot_key(":lost"); }
  // String JSON; list.ttl
  std::string list(const hot::ListQuery& query) const;
  // Hash; list.ttl
  std::string list_meta(const hot::ListQuery& query) const;
  // String; kListLockTtl
  std::string list_lock(const hot::ListQuery& query) const;

  // --- Of one reader's feed
  // List of lines of item ids, a page's with blanks between: the buffer; feed.buffer_ttl
  std::string feed_cache(std::string_view reader) const { return item_key("feed:cache:", reader); }
  // Hash: what the buffer is of, and the last pages (core/feed/parts/feed_state.lua);
  // feed.buffer_ttl, kPendingTtl while one is not acknowledged
  std::string feed_state(std::string_view reader) const { return item_key("feed:state:", reader); }

  // --- Of one reader
  // List of item ids, newest first; history.ttl since the last view
  std::string view_history(readers::ViewKind kind, std::string_view reader) const {
    return item_key(kind == readers::ViewKind::kTopic ? "user:views:topic:" : "user:views:reply:", reader);
  }
  // Hash: "t:{item}" of a topic, "r:{item}" of a reply → unix s; as the lists
  std::string view_times(std::string_view reader) const { return item_key("user:views:at:", reader); }
  // ZSET: "{letter}:{item}" (readers::kInteractionKinds) → unix s; interactions.ttl since the last,
  // a day of it less at most
  std::string interactions(std::string_view reader) const { return item_key("user:interactions:", reader); }
  // String: fingerprints of the items of older ones, oldest first
  // (core/readers/reader_put.lua); likewise
  std::string archived_interactions(std::string_view reader) const { return item_key("user:earlier:", reader); }
  // ZSET: item → unix s; feedback.ttl since the last
  std::string not_interested(std::string_view reader) const {
    return item_key("user:not_interested:", reader);
  }
  // Hash: item → reason, where one was given; likewise
  std::string not_interested_reasons(std::string_view reader) const {
    return item_key("user:not_interested:why:", reader);
  }
  // ZSET: event id → unix s when it was applied; kEventTtl since the last
  std::string reader_event_ids(std::string_view reader) const { return item_key("user:events:", reader); }
  // `hashed`: a salted hash of the reader's id, never the id: it outlives the reader's erasure.
  // String: how often the reader was erased; kSeenEpochTtl since it was last used
  std::string seen_epoch(std::string_view reader_hash) const { return item_key("user:epoch:", reader_hash); }
  // String, unix s: the reader was erased then; tombstone_ttl()
  std::string tombstone(std::string_view reader_hash) const { return item_key("user:erased:", reader_hash); }

  // --- Timelines. Scores are unix µs, raised to be strictly increasing within a key; a member
  // whose name begins with ':' is no id but a mark of the key itself, and its score is negative
  // (core/timeline/parts/timeline.lua).
  // ZSET: item → score; waterfall.ttl since it was created or read, an eighth of it less at most
  std::string timeline(std::string_view channel, std::string_view reader) const {
    return item_key("wf:" + std::string(channel) + ":", reader);
  }
  // ZSET: reader → unix s when they last opened the channel, up to an hour ago; the newest
  // kMostActive
  std::string active_readers(std::string_view channel) const { return prefix_ + "active:" + std::string(channel); }
  // ZSET: author → score in follow:pull:{author} up to which the reader's timeline has everything
  std::string followed_authors(std::string_view reader) const { return item_key("follow:authors:", reader); }
  // ZSET: follower → score, in the order in which they followed; permanent
  std::string followers(std::string_view author) const { return item_key("follow:readers:", author); }
  // ZSET: item → score; the newest fanout.outbox
  std::string outbox(std::string_view author) const { return item_key("follow:outbox:", author); }
  // ZSET: what of it is not pushed; likewise
  std::string pull_outbox(std::string_view author) const { return item_key("follow:pull:", author); }
  // ZSET: author → highest score of their follow:pull; those who have one
  std::string pull_authors() const { return prefix_ + "follow:pulled"; }

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
  std::string recorder_lease() const { return shared_key("recorder:lease"); }

  // ZSET: host → unix ms at which nothing waited in its spools (core/readers/spool_registry.h)
  std::string spools_empty_at() const { return prefix_ + "recorder:spools"; }

  // Matches hot:article:{id} of every item, for SCAN; and the id in such a name.
  std::string article_pattern() const;
  std::string id_of_article(std::string_view key) const;
  // A key found in Redis without the prefix, and in a cluster without kShared or a group's tag,
  // whatever the number of groups; nullopt when it does not begin with the prefix: somebody else's.
  std::optional<std::string> strip_prefix(std::string_view key) const;
  // The row of kKeyPatterns that a key found in Redis belongs to; nullptr: none of ours.
  const KeyPattern* pattern_of(std::string_view key) const;

 private:
  // head{id} and head{id}:tail
  std::string item_key(std::string_view head, std::string_view id) const;
  std::string item_key(std::string_view head, std::string_view id, std::string_view tail) const;
  std::string shared_key(std::string_view head, std::string_view tail = {}) const;
  std::string_view hash_tag_of(std::string_view name) const;
  std::string shared_hot_key(std::string_view tail) const { return shared_key("hot", tail); }

  static constexpr std::string_view kSharedHashTag = ":{all}";

  std::string prefix_;
  std::string_view shared_suffix_;
  Topology topology_;
  unsigned partition_count_ = 1;
};

// The part of a plain name that is number `part` between colons, counted from 0, without braces; ""
// when there are fewer.
std::string_view key_segment(std::string_view key, std::size_t index);

}  // namespace freshet::redis
