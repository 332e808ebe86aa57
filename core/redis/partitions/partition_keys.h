// Names of the keys shared by the articles of one partition (partitions.h). On a single Redis,
// which has one partition, the names are plain. In a cluster the partition's hash tag is appended,
// so that a script may use several of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/hot/models.h"
#include "core/redis/partitions/key_encoding.h"

namespace freshet::redis {

// All are permanent. Each is capped by the partition's part of list.max_members or by the number of
// items. The recorder's two also hold entries of readers and authors, by their own ids.
class PartitionKeys {
 public:
  // `tag`: the hash tag, "" on a single Redis. Both must outlive this.
  PartitionKeys(std::string_view prefix, std::string_view tag) : prefix_(prefix), hash_tag_(tag) {}

  // ZSET of rank keys (core/hot/models.h)
  std::string rank(const hot::Model& model) const { return name(model.rank); }
  // ZSET during a rebuild
  std::string staging_rank(const hot::Model& model) const { return staging(model.rank); }
  // Hash: the parameters that the partition's ranks were computed with (`formula`; during a rebuild
  // also `next`)
  std::string meta() const { return name("hot:rank:meta"); }
  // Hash: rank member → version of the counters that its rank key was computed from
  std::string rank_versions(const hot::Model& model) const { return name(model.rank_versions); }
  // Hash during a rebuild
  std::string staging_rank_versions(const hot::Model& model) const { return staging(model.rank_versions); }
  // Set of ids to be ranked later, because the ranks had other parameters when they were counted
  std::string unranked() const { return name("hot:unplaced"); }
  // ZSET by publish time
  std::string published() const { return name("hot:published"); }
  // ZSET of items that must not be shown → unix s until which they are hidden. +inf for a hidden
  // item; for a deleted one the time at which it is forgotten; for a future-dated one half a second
  // before its date (all times compared with it are whole seconds). Only future-dated items are
  // also in ranks, hot:published, hot:newest and tags.
  std::string hidden() const { return name("hot:hidden"); }
  // ZSET by date: the 1,000 newest published items that are not hidden, and all future-dated ones
  std::string newest() const { return name("hot:newest"); }
  // ZSET: unverified article → unix s at which its hash expires; the partition's part of
  // items.unknown_max
  std::string unverified() const { return name("hot:unlisted"); }
  // ZSET: hour → highest total in its bucket
  std::string current_bucket_index() const { return name("hot:current:index"); }
  // ZSET: the views of one hour; expires views.counter_ttl after its last view
  std::string current_bucket(std::int64_t hour) const { return name("hot:current:", std::to_string(hour)); }
  // Stream for the recorder (core/recorder/stream.h); capped by the partition's part of
  // stream.max_len
  std::string stream() const { return name("recorder:stream"); }
  // String: the fencing token of the only recorder that may acknowledge entries of the stream
  std::string fence() const { return name("recorder:fence"); }
  // The text in the braces; "" on a single Redis
  std::string_view hash_tag() const { return hash_tag_; }
  // Set of item ids. `tag_key`: the tag, folded (utf8::fold())
  std::string tagged_items(std::string_view tag_key) const { return name("tag:", tag_key); }

 private:
  std::string staging(std::string_view head) const { return name(std::string(head).append(":next")); }
  // The tail is encoded.
  std::string name(std::string_view head, std::string_view tail = {}) const {
    std::string out;
    out.reserve(prefix_.size() + head.size() + encoded_size(tail) + hash_tag_.size() + 3);
    append_encoded(out.append(prefix_).append(head), tail);
    if (!hash_tag_.empty()) out.append(":{").append(hash_tag_).append("}");
    return out;
  }

  std::string_view prefix_, hash_tag_;
};

}  // namespace freshet::redis
