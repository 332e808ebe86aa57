// Names of what the articles of one group share (groups.h). On one Redis, which has one group, they
// are plain; in a cluster the group's tag stands in braces behind each, so that a script may touch
// several of them.
#pragma once

#include <string>
#include <string_view>

#include "core/hot/models.h"

namespace freshet::redis {

// All are permanent, each capped by the group's part of list.max_members or by the number of items.
// The recorder's two are of readers and authors as well, by their own ids.
class PartitionKeys {
 public:
  // `tag`: "" on one Redis. Both must outlive this.
  PartitionKeys(std::string_view prefix, std::string_view tag) : prefix_(prefix), hash_tag_(tag) {}

  // ZSET of places (core/hot/models.h)
  std::string rank(const hot::Model& model) const { return name(model.rank); }
  // ZSET while rebuilding
  std::string staging_rank(const hot::Model& model) const { return name(model.rank, ":next"); }
  // Hash: the parameters that the group's ranks were made with (`formula`; while they are made
  // anew, also `next`)
  std::string meta() const { return name("hot:rank:meta"); }
  // Hash: member of a rank → version of the counters that its place was made from
  std::string rank_versions(const hot::Model& model) const { return name(model.rank_versions); }
  // Hash while rebuilding
  std::string staging_rank_versions(const hot::Model& model) const { return name(model.rank_versions, ":next"); }
  // Set of ids that were not placed, because ranks had other parameters, and are to be
  std::string unranked() const { return name("hot:unplaced"); }
  // ZSET of publish times
  std::string published() const { return name("hot:published"); }
  // ZSET of what must not be shown → unix s at which that ends: +inf of a hidden item; of a deleted
  // one when it is forgotten; of one that is dated ahead half a second before its date (of all
  // times whole seconds are compared), and it alone stands in ranks, hot:published, hot:newest and
  // tags as well.
  std::string hidden() const { return name("hot:hidden"); }
  // ZSET by date: the 1,000 newest items that were put and are not hidden, and all that are dated
  // ahead
  std::string newest() const { return name("hot:newest"); }
  // ZSET: article that nobody vouched for → unix s at which its hash ends; the group's part of
  // items.unknown_max
  std::string unverified() const { return name("hot:unlisted"); }
  // ZSET hour → best total
  std::string current_bucket_index() const { return name("hot:current:index"); }
  // ZSET; views.counter_ttl since its last view
  std::string current_bucket(std::int64_t hour) const { return name("hot:current:", std::to_string(hour)); }
  // Stream for the recorder (core/recorder/stream.h); the group's part of stream.max_len
  std::string stream() const { return name("recorder:stream"); }
  // String: the token of the recorder that alone may acknowledge in the stream
  std::string fence() const { return name("recorder:fence"); }
  // What stands in the braces; "" on one Redis
  std::string_view hash_tag() const { return hash_tag_; }
  // Set of item ids
  std::string tagged_items(std::string_view tag) const { return name("tag:", tag); }

 private:
  std::string name(std::string_view head, std::string_view tail = {}) const {
    std::string out;
    out.reserve(prefix_.size() + head.size() + tail.size() + hash_tag_.size() + 3);
    out.append(prefix_).append(head).append(tail);
    if (!hash_tag_.empty()) out.append(":{").append(hash_tag_).append("}");
    return out;
  }

  std::string_view prefix_, hash_tag_;
};

}  // namespace freshet::redis
