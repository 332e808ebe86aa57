// The exact top k of mode = current, reading only a few of its members.
//
// A power law has no key without `now` in it: 120 views of 12 hours and 80 of 4 swap places as time
// goes by, so no ZSET can hold the order. But a bound is easy. Articles stand in buckets by the
// hour of publication, each ordered by its total; within one hour nothing can score more than
//
//     best total still unread / (age of the youngest moment of that hour + base)^gamma
//
// so buckets are read from their heads, the most promising first, until the k-th best article beats
// every bucket's bound. The rest need not be read. With 20,000 articles and k = 20 that is some
// tens of members.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/config/settings.h"

namespace freshet::hot {

// Articles of an hour of publication, as far as they are of one group
// (core/redis/partitions/partitions.h).
struct BucketName {
  std::int64_t hour = 0;  // floor(publish time / 3600 s)
  unsigned partition = 0;
  auto operator<=>(const BucketName&) const = default;
};
struct BucketUpperBound {
  BucketName name;
  double max_total = 0;  // no member's total is greater
};

struct CurrentMember {
  ItemId item;
  double total = 0;
  UnixSeconds published;
  bool eligible = true;  // false: read, but not for this list (another column, for instance)
  unsigned partition = 0;    // which of its hour's buckets it is in
};

struct CurrentScore {
  ItemId item;
  double score = 0;
  UnixSeconds published;
};

// Feed it until next_read() is empty, then take top().
class ThresholdTopK {
 public:
  // Which members to read: of each of `buckets`, those at ranks offset..offset + count − 1 by
  // total, highest first.
  struct Read {
    std::vector<BucketName> buckets;
    std::int64_t offset = 0;
    std::int64_t count = 0;
  };

  // `published_from`: older articles are left out (window = …). REQUIRES: k > 0.
  ThresholdTopK(const std::vector<BucketUpperBound>& buckets, std::size_t k, UnixSeconds now,
             const ViewsSettings& settings, std::optional<UnixSeconds> published_from = std::nullopt);

  // The next read to do, or nothing: the k-th best beats every bound, or all has been read.
  std::optional<Read> next_read() const;
  // The answer to `read`: all members it found, in any order, eligible or not. A bucket that gave
  // fewer than `count` is at its end.
  void add_members(const Read& read, const std::vector<CurrentMember>& members);
  // The best k so far, highest first; ties by id, the greater bytes first, as ZREVRANGE has them.
  // O(n log n).
  std::vector<CurrentScore> top() const;
  std::size_t members_read() const { return members_read_; }

 private:
  struct Bucket {
    double max_unread_total = 0;  // no unread member's total is greater
    std::int64_t read_count = 0;   // members taken from the head
    bool has_more = true;
  };
  double upper_bound(std::int64_t hour, const Bucket& bucket) const;
  std::optional<double> kth_score() const;

  std::map<BucketName, Bucket> buckets_;
  std::map<std::string, CurrentScore> candidates_;  // by id: an article that moved while we read is kept once
  std::size_t k_;
  UnixSeconds now_;
  ViewsSettings settings_;
  std::optional<UnixSeconds> published_from_;
  std::int64_t partitions_ = 1;
  std::size_t members_read_ = 0;
};

}  // namespace freshet::hot
