// The exact top k of mode = current, reading only a few members of each bucket (a threshold
// algorithm).
//
// Power-law scores have no time-independent key: 120 views that are 12 hours old and 80 that are 4
// hours old swap places as time passes, so no ZSET can hold the order. But they are easy to bound.
// Articles are kept in buckets by hour of publication, each ordered by total; within one hour
// nothing can score more than
//
//     highest unread total / (age of the youngest moment of that hour + base)^gamma
//
// so buckets are read from the top, the most promising first, until the k-th best article beats the
// bound of every bucket. With 20,000 articles and k = 20 that takes a few dozen members.
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

// The articles of one partition (core/redis/partitions/partitions.h) that were published in one
// hour.
struct BucketName {
  std::int64_t hour = 0;  // floor(publish time / 3600 s)
  unsigned partition = 0;
  auto operator<=>(const BucketName&) const = default;
};
struct BucketUpperBound {
  BucketName name;
  double max_total = 0;  // upper bound: no member has a greater total
};

struct CurrentMember {
  ItemId item;
  double total = 0;
  UnixSeconds published;
  bool eligible = true;    // false: read, but does not match the list's filters, such as its tag
  unsigned partition = 0;  // partition of the bucket that holds it
};

struct CurrentScore {
  ItemId item;
  double score = 0;
  UnixSeconds published;
};

// Protocol: while next_read() returns a read, do it and pass the reply to add_members(); then call
// top().
class ThresholdTopK {
 public:
  // Members to read from each bucket: those at ranks offset … offset + count − 1 by total, highest
  // first.
  struct Read {
    std::vector<BucketName> buckets;
    std::int64_t offset = 0;
    std::int64_t count = 0;
  };

  // `published_from`: leaves out older articles (window = …). REQUIRES: k > 0.
  ThresholdTopK(const std::vector<BucketUpperBound>& buckets, std::size_t k, UnixSeconds now,
                const ViewsSettings& settings, std::optional<UnixSeconds> published_from = std::nullopt);

  // The next read; nullopt when the k-th best beats every bound or everything has been read.
  std::optional<Read> next_read() const;
  // Adds the reply to `read`: all members found, in any order, eligible or not. A bucket that
  // returned fewer than `count` is exhausted.
  void add_members(const Read& read, const std::vector<CurrentMember>& members);
  // The best k so far, highest first; ties by id, greater bytes first, like ZREVRANGE. O(n log n).
  std::vector<CurrentScore> top() const;
  std::size_t members_read() const { return members_read_; }

 private:
  struct Bucket {
    double max_unread_total = 0;  // upper bound: no unread member has a greater total
    std::int64_t read_count = 0;  // members read from the top
    bool has_more = true;
  };
  double upper_bound(std::int64_t hour, const Bucket& bucket) const;
  std::optional<double> kth_score() const;

  std::map<BucketName, Bucket> buckets_;
  // Keyed by id, so that an article that moves to another bucket during the scan is kept once.
  std::map<std::string, CurrentScore> candidates_;
  std::size_t k_;
  UnixSeconds now_;
  ViewsSettings settings_;
  std::optional<UnixSeconds> published_from_;
  std::int64_t partitions_ = 1;
  std::size_t members_read_ = 0;
};

}  // namespace freshet::hot
