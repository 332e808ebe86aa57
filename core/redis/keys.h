// All Redis keys: their names, types and TTLs. No other file builds a key name.
//
// Names cannot collide: ids and tags are encoded in them (key_encoding.h), so that they have no ':'
// and no braces, and ids stand in braces.
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

// How long an event id is remembered; track.lua and view.lua hard-code it.
inline constexpr seconds kEventTtl{86400};
// After the last pair. Their weight has then halved 24 times (core/items/covisits.h).
inline constexpr seconds kCovisitsTtl{86400};
inline constexpr milliseconds kListLockTtl{1000};  // a slower builder loses the lock
inline constexpr seconds kRebuildLockTtl{60};      // renewed with every batch
inline constexpr milliseconds kRankMaintenanceLockTtl{900};
inline constexpr seconds kPendingTtl{8 * 86400};    // as long as a day of the seen filter lives
inline constexpr seconds kSeenEpochTtl{9 * 86400};  // longer than the oldest day of the seen filter
inline constexpr seconds kJobTtl{86400};            // after its last change
inline constexpr seconds kMergeGuardTtl{60};        // then a request may start the merge again
inline constexpr int kMaxMergedNames = 3;           // of one reader
// Longer than any spool may hold events from before the erasure.
inline constexpr seconds tombstone_ttl(seconds max_age) { return max_age + seconds(86400); }
// Members of timelines, outboxes and follower lists that are marks of the key itself, with negative
// scores (core/timeline/parts/timeline.lua): the highest score ever given, the highest that was
// trimmed, and when the reader's activity was recorded.
inline constexpr std::string_view kHighestMark = "\x1e", kTrimmedMark = "\x1e\x1e",
                                  kActivityMark = "\x1e\x1e\x1e";
inline bool is_mark(std::string_view member) { return member.starts_with(kIdMark); }
// Stored in place of the partition count during a repartition.
inline constexpr std::string_view kRepartitioning = "0";
inline constexpr int kMaxActiveReaders = 1'000'000;  // per channel

enum class Subject : std::uint8_t {
  kNone,  // identifies no reader, or only by a salted hash that is kept (user:epoch, user:erased)
  // One segment of the name identifies the reader: the id, the visitor, or an id that a client
  // derived from it.
  kReader,
  kMembers,  // a set or ZSET whose members are such names
  kValue,    // a string that is the reader's id
};

// The table of all keys. Used by `freshetctl check`, backup, export and erasure.
struct KeyPattern {
  std::string_view pattern;  // without the prefix; "*" for each variable segment, "{*}" if it is in braces
  std::string_view type;     // as TYPE replies
  bool permanent;            // no TTL
  Subject subject;
  std::size_t segment = 0;  // kReader: the segment that identifies the reader, counted from 0
};
inline constexpr std::array kKeyPatterns{
    KeyPattern{"hot:article:{*}", "hash", true, Subject::kNone},    // has a TTL if the item was never put
    KeyPattern{"hot:uv:hll:{*}", "string", false, Subject::kNone},  // HyperLogLog registers
    KeyPattern{"hot:session:{*}:*", "string", false, Subject::kReader, 3},
    KeyPattern{"hot:event:{*}:*", "string", false, Subject::kReader,
               3},  // a client may use its reader's id as the event id
    KeyPattern{"hot:dedup:{*}:*", "string", false, Subject::kReader, 3},  // likewise as the fingerprint
    KeyPattern{"hot:uv:{*}:*", "set", false, Subject::kMembers},
    KeyPattern{"hot:view:event:{*}:*", "string", false, Subject::kReader, 4},
    KeyPattern{"hot:added:{*}", "hash", false, Subject::kReader, 2},
    KeyPattern{"hot:covisits:{*}", "string", false, Subject::kNone},
    KeyPattern{"item:{*}", "hash", true, Subject::kNone},
    KeyPattern{"hot:rank", "zset", true, Subject::kNone},
    KeyPattern{"hot:rank:next", "zset", true, Subject::kNone},
    KeyPattern{"hot:rank:meta", "hash", true, Subject::kNone},
    KeyPattern{"hot:rank:lock", "string", false, Subject::kNone},
    KeyPattern{"hot:rank:turn", "string", false, Subject::kNone},
    KeyPattern{"hot:placed", "hash", true, Subject::kNone},
    KeyPattern{"hot:placed:next", "hash", true, Subject::kNone},
    KeyPattern{"hot:placed:views", "hash", true, Subject::kNone},
    KeyPattern{"hot:trending", "zset", true, Subject::kNone},
    KeyPattern{"hot:trending:next", "zset", true, Subject::kNone},
    KeyPattern{"hot:placed:trending", "hash", true, Subject::kNone},
    KeyPattern{"hot:placed:trending:next", "hash", true, Subject::kNone},
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
    KeyPattern{"user:merged:{*}", "string", false, Subject::kValue, 2},
    KeyPattern{"user:merging:{*}", "string", false, Subject::kNone},
    KeyPattern{"user:visitors:{*}", "zset", false, Subject::kReader, 2},
    KeyPattern{"wf:*:{*}", "zset", false, Subject::kReader, 2},
    KeyPattern{"active:*", "zset", true, Subject::kMembers},
    KeyPattern{"follow:authors:{*}", "zset", true, Subject::kReader, 2},
    KeyPattern{"follow:readers:{*}", "zset", true,
               Subject::kMembers},  // the author in the name is the site's id for them
    KeyPattern{"follow:outbox:{*}", "zset", true, Subject::kNone},
    KeyPattern{"follow:pull:{*}", "zset", true, Subject::kNone},
    KeyPattern{"follow:pulled", "zset", true, Subject::kNone},
    KeyPattern{"job:*", "hash", false, Subject::kNone},
    KeyPattern{"job:*:*", "string", false, Subject::kNone},
    KeyPattern{"bf:global:*:*", "string", false,
               Subject::kNone},  // fingerprints; unreadable once the reader's epoch changes
    KeyPattern{"bf:global:*", "MBbloom--", false, Subject::kNone},
    KeyPattern{"recorder:stream", "stream", true,
               Subject::kNone},  // internal to the recorder, see core/recorder/erasure_worker.h
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

// True if the key's name starts with an article's id, followed by the reader if it has one. A
// reader's keys of this kind can be found only by scanning all keys.
constexpr bool names_article_first(const KeyPattern& key) { return key.pattern.ends_with("{*}:*"); }

// Returns true if a score of hot:hidden is that of an item that is only future-dated.
inline bool is_embargo(double until) { return until != std::floor(until); }

class Keys {
 public:
  enum class Topology : std::uint8_t { kStandalone, kCluster };
  // `prefix` precedes every name (redis.key_prefix). In a cluster the keys that articles share are
  // split into `partition_count` partitions (partitions.h); those that cannot be split have
  // kSharedHashTag appended. A single Redis has one partition.
  explicit Keys(std::string prefix, Topology topology = Topology::kStandalone, unsigned partition_count = 16)
      : prefix_(std::move(prefix)),
        shared_suffix_(topology == Topology::kCluster ? kSharedHashTag : ""),
        topology_(topology) {
    if (topology == Topology::kCluster) partition_count_ = partition_count;
  }
  explicit Keys(const RedisSettings& settings)
      : Keys(settings.key_prefix, settings.is_cluster() ? Topology::kCluster : Topology::kStandalone,
             static_cast<unsigned>(settings.partitions)) {}

  bool in_cluster() const { return topology_ == Topology::kCluster; }
  unsigned partition_count() const { return partition_count_; }
  unsigned partition_of(std::string_view id) const { return redis::partition_of(id, partition_count_); }
  // A partition's part of a limit that applies to all articles together, rounded up.
  std::int64_t per_partition(std::int64_t total) const {
    return (total + partition_count_ - 1) / partition_count_;
  }
  // Keys of one partition, and of the partition that an article is in. Must not outlive this.
  PartitionKeys partition(unsigned number) const {
    return {prefix_, topology_ == Topology::kCluster ? partition_hash_tag(number, partition_count_)
                                                     : std::string_view()};
  }
  PartitionKeys partition_for(std::string_view id) const { return partition(partition_of(id)); }
  std::vector<PartitionKeys> partitions() const;
  // The partition that a key found in Redis belongs to; any partition for keys that belong to none.
  PartitionKeys partition_in_key(std::string_view key) const;
  // Returns true if a key found in Redis belongs to a partition under another partition count.
  bool has_other_partition_count(std::string_view key) const;
  // All keys that a row of kKeyPatterns without variable segments stands for.
  std::vector<std::string> names_of(const KeyPattern& row) const;

  // The keys about a reader with this name (Subject::kReader) that can be found without a scan: all
  // but those of names_article_first(). `channels`: waterfall.channels.
  std::vector<std::string> keys_about(std::string_view name, const std::vector<std::string>& channels) const;

  // The key's slot in a cluster, 0 on a single Redis. Keys of different ids may be passed to one
  // script call only if this is equal for them.
  unsigned slot_or_zero(std::string_view key) const;

  // --- Keys of one item
  // Hash: counters, and what counting needs to know of the item (core/hot/article.h). Permanent for
  // an item that was put; its counters then expire by `renewed` and `viewed`. Otherwise it has a
  // TTL: an hour for an unverified article, engagement.counter_ttl for a removed item, and the
  // later of engagement.counter_ttl and views.counter_ttl for any other.
  std::string article(std::string_view id) const { return item_key("hot:article:", id); }
  // HyperLogLog; expires engagement.counter_ttl after the last PV, renewed once a day
  std::string uv_hll(std::string_view id) const { return item_key("hot:uv:hll:", id); }
  // String: "dwell begin", both ms (core/hot/track.lua); hot.session_window after the last report
  std::string session(std::string_view id, std::string_view session) const;
  // String: the reply; kEventTtl
  std::string track_event(std::string_view id, std::string_view event) const;
  // String; views.dedup_window
  std::string dedup(std::string_view id, std::string_view fingerprint) const;
  // Set; views.uv_ttl
  std::string uv_day(std::string_view id, UnixSeconds day) const;
  // String: the reply; kEventTtl
  std::string view_event(std::string_view id, std::string_view event) const;
  // Hash; permanent, or engagement.counter_ttl once the item is removed
  std::string item(std::string_view id) const { return item_key("item:", id); }

  // String: what was read after the item (core/items/covisits.h); kCovisitsTtl
  std::string covisits(std::string_view id) const { return item_key("hot:covisits:", id); }

  // --- Keys of one visitor
  // Hash: the visitor's contributions to counters (core/hot/contributions.h); expires
  // limits.contribution_ttl after the last new article
  std::string contributions(std::string_view visitor) const { return item_key("hot:added:", visitor); }

  // --- Keys shared by all items
  // Hash, permanent: the schema version of all keys (`schema`) and the position of the rank
  // maintenance scan (`cursor`). On a single Redis the same key as PartitionKeys::meta().
  std::string rank_meta() const { return shared_hot_key(":rank:meta"); }
  // String; kRebuildLockTtl
  std::string rank_rebuild_lock() const { return shared_hot_key(":rank:lock"); }
  // String: taken by the worker that runs the next rank maintenance; kRankMaintenanceLockTtl
  std::string rank_maintenance_lock() const { return shared_hot_key(":rank:turn"); }
  // String, and the channel on which it is published; permanent
  std::string epoch() const { return shared_hot_key(":epoch"); }
  // String, permanent, in a cluster only: the partition count; kRepartitioning while it is being
  // changed
  std::string partition_count_key() const { return shared_hot_key(":groups"); }
  // String: unix ms at which Redis was found to have lost its items; deleted once they are restored
  // (core/recorder/consumer_groups.h)
  std::string data_lost_at() const { return shared_hot_key(":lost"); }
  // String: JSON, after a space if no article reached list.min_score; list.ttl
  std::string list(const hot::ListQuery& query) const;
  // Hash; list.ttl
  std::string list_meta(const hot::ListQuery& query) const;
  // String; kListLockTtl, or hot::kSlowListTtl after a build that ran out of time
  std::string list_lock(const hot::ListQuery& query) const;

  // --- Keys of one reader's feed
  // List: the feed buffer. Each element holds the item ids of one page, separated by kIdSeparator;
  // feed.buffer_ttl
  std::string feed_cache(std::string_view reader) const { return item_key("feed:cache:", reader); }
  // Hash: the state of the buffer and the last pages (core/feed/parts/feed_state.lua);
  // feed.buffer_ttl, kPendingTtl while a page is not acknowledged
  std::string feed_state(std::string_view reader) const { return item_key("feed:state:", reader); }

  // --- Keys of one reader
  // List of item ids, newest first; expires history.ttl after the last view
  std::string view_history(readers::ViewKind kind, std::string_view reader) const {
    return item_key(kind == readers::ViewKind::kTopic ? "user:views:topic:" : "user:views:reply:", reader);
  }
  // Hash: "t:{item}" for a topic, "r:{item}" for a reply → unix s; TTL as for the lists
  std::string view_times(std::string_view reader) const { return item_key("user:views:at:", reader); }
  // ZSET: "{letter}:{item}" (readers::kInteractionKinds) → unix s; expires interactions.ttl after
  // the last one, up to a day earlier
  std::string interactions(std::string_view reader) const { return item_key("user:interactions:", reader); }
  // String: item fingerprints of the interactions that no longer fit in the ZSET, oldest first
  // (core/readers/reader_put.lua); same TTL
  std::string archived_interactions(std::string_view reader) const {
    return item_key("user:earlier:", reader);
  }
  // ZSET: item → unix s; expires feedback.ttl after the last one
  std::string not_interested(std::string_view reader) const {
    return item_key("user:not_interested:", reader);
  }
  // Hash: item → reason, where one was given; same TTL
  std::string not_interested_reasons(std::string_view reader) const {
    return item_key("user:not_interested:why:", reader);
  }
  // ZSET: event id → unix s at which it was applied; expires kEventTtl after the last one
  std::string reader_event_ids(std::string_view reader) const { return item_key("user:events:", reader); }
  // `reader_hash`: a salted hash of the reader's id, never the id itself, because the key outlives
  // the erasure.
  // String: number of times the reader was erased; expires kSeenEpochTtl after its last use
  std::string seen_epoch(std::string_view reader_hash) const { return item_key("user:epoch:", reader_hash); }
  // String: unix s of the reader's erasure; tombstone_ttl()
  std::string tombstone(std::string_view reader_hash) const { return item_key("user:erased:", reader_hash); }

  // String: the id of the reader that this one was merged into; spool.max_age after the last merge
  std::string merged_into(std::string_view reader_hash) const {
    return item_key("user:merged:", reader_hash);
  }
  // String: a merge of this visitor was requested; kMergeGuardTtl
  std::string merge_guard(std::string_view reader_hash) const {
    return item_key("user:merging:", reader_hash);
  }
  // ZSET: name in the seen filter of a reader who was merged into this one → unix s, the newest
  // kMaxMergedNames; expires kPendingTtl after the last merge
  std::string merged_names(std::string_view reader) const { return item_key("user:visitors:", reader); }

  // --- Timelines. Scores are unix µs, raised so that they strictly increase within a key. A member
  // that begins with kIdMark is not an id but a mark of the key itself, with a negative score
  // (kHighestMark).
  // ZSET: item → score; expires waterfall.ttl after it was created or read, up to an eighth of it
  // earlier
  std::string timeline(std::string_view channel, std::string_view reader) const {
    return item_key("wf:" + encoded(channel) + ":", reader);
  }
  // ZSET: reader → unix s at which they last opened the channel, up to an hour late; the newest
  // kMaxActiveReaders
  std::string active_readers(std::string_view channel) const {
    return prefix_ + "active:" + encoded(channel);
  }
  // ZSET: author → score in follow:pull:{author} up to which the reader's timeline is complete
  std::string followed_authors(std::string_view reader) const { return item_key("follow:authors:", reader); }
  // ZSET: follower → score, in the order in which they followed; permanent
  std::string followers(std::string_view author) const { return item_key("follow:readers:", author); }
  // ZSET: item → score; the newest fanout.outbox
  std::string outbox(std::string_view author) const { return item_key("follow:outbox:", author); }
  // ZSET: items of the outbox that are not pushed to followers; same limit
  std::string pull_outbox(std::string_view author) const { return item_key("follow:pull:", author); }
  // ZSET: author → highest score of their follow:pull, for authors that have one
  std::string pull_authors() const { return prefix_ + "follow:pulled"; }

  // Hash: state, done, total, failed; kJobTtl. For an erasure also `at`, unix ms; tombstone_ttl()
  std::string job(std::string_view id) const { return prefix_ + "job:" + encoded(id); }
  // String: the reply to the push with this event id; kEventTtl
  std::string push_event(std::string_view channel, std::string_view event) const {
    return prefix_ + "job:" + encoded(channel) + ":" + encoded(event);
  }

  // --- Seen filter: one filter per UTC day ("20260306"), split into shards; expires eight days
  // after the day began.
  // String: bits
  std::string seen_shard(std::string_view day, std::string_view shard) const;
  // MBbloom--: the day's filter of RedisBloom
  std::string seen_day(std::string_view day) const;

  // Hash: the process that holds the recorder lease and the database that Redis belongs to
  // (core/recorder/lease.h)
  std::string recorder_lease() const { return shared_key("recorder:lease"); }

  // ZSET: host → unix ms at which its spools were last empty (core/readers/spool_registry.h)
  std::string spools_empty_at() const { return prefix_ + "recorder:spools"; }

  // SCAN pattern of hot:article:{id} for all items, and the id in such a name.
  std::string article_pattern() const;
  std::string id_of_article(std::string_view key) const;
  // Strips the prefix, and in a cluster kSharedHashTag or a partition's hash tag under any
  // partition count. nullopt if the key does not begin with the prefix and is thus not ours.
  std::optional<std::string> strip_prefix(std::string_view key) const;
  // The row of kKeyPatterns for a key found in Redis; nullptr if there is none.
  const KeyPattern* pattern_of(std::string_view key) const;

 private:
  // head{id} and head{id}:tail; id and tail are encoded
  std::string item_key(std::string_view head, std::string_view id) const;
  std::string item_key(std::string_view head, std::string_view id, std::string_view tail) const;
  static std::string encoded(std::string_view part);
  std::string shared_key(std::string_view head, std::string_view tail = {}) const;
  std::string_view hash_tag_of(std::string_view name) const;
  std::string shared_hot_key(std::string_view tail) const { return shared_key("hot", tail); }

  static constexpr std::string_view kSharedHashTag = ":{all}";

  std::string prefix_;
  std::string_view shared_suffix_;
  Topology topology_;
  unsigned partition_count_ = 1;
};

// Segment `index` (from 0, separated by colons) of a key without prefix, decoded and with braces
// removed; "" if there are fewer.
std::string key_segment(std::string_view key, std::size_t index);

}  // namespace freshet::redis
