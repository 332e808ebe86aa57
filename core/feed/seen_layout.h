// Binary layout of the seen filter: three bytes per impression.
//
// A UTC day's filter is divided into shards, chosen by a hash of the reader. All of a reader's
// impressions of a day lie in one string of about 1.5 KiB, so eight strings answer for any number
// of items. A shard is a sequence of 24-bit fingerprints in the order of arrival; repeated
// impressions are stored again. A fingerprint covers both reader and item: readers of a shard share
// its bytes but not their impressions.
//
// There are no false negatives. An unseen item is reported as seen if its fingerprint equals one of
// the shard's n fingerprints:
//     p(day) = 1 − (1 − 2^−24)^n ≈ n / 2^24        P = 1 − Π (1 − p(day)) over eight days
// This depends only on the number of impressions: 0.024 % over eight days in shards that hold as
// many as expected, 0.17 % for a reader with 3,000 impressions a day. Twice the expected number
// doubles the rate and does no other harm.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"

namespace freshet::feed {

// Today and the seven days before it, so that seven full days are always covered.
inline constexpr int kSeenDays = 8;
inline constexpr std::size_t kFingerprintBytes = 3;
inline constexpr std::int64_t kImpressionsPerShard = 512;  // expected in a shard per day
// About 700,000 impressions a day; further ones are refused.
inline constexpr std::int64_t kMaxShardBytes = 2 << 20;

// Number of shards of a day with this many expected impressions. ≥ 1.
std::int64_t shard_count_for(std::int64_t impressions_per_day);

// Rate allowed for each of eight days so that they have `combined` together: 1 − (1 − P)^(1/8).
double daily_false_positive_rate(double combined);
// p(day): the share of unseen items reported as seen in a shard with this many impressions, by the
// formula above.
double shard_false_positive_rate(std::int64_t impressions);

// Midnight UTC at which an impression of time `at` expires: eight days after the day of `at` began.
UnixSeconds filter_expires_at(UnixSeconds at);

// XXH3, 64 bits.
std::uint64_t reader_hash(const ReaderId& reader);
// In [0, shards).
std::int64_t shard_of(std::uint64_t reader_hash, std::int64_t shards);
// Below 2^24. The item's hash is seeded with the reader's, so ("a", "bc") and ("ab", "c") differ.
std::uint32_t fingerprint_of(std::uint64_t reader_hash, const ItemId& item);
// Fingerprints in the format appended to a shard.
std::string encode_fingerprints(std::uint64_t reader_hash, const std::vector<ItemId>& items);

// A reader's shards, loaded for lookups.
class FingerprintSet {
 public:
  // Adds a shard as stored in Redis; empty if missing. Returns false if its length is not a
  // multiple of three, that is, if another program wrote to it. Such a shard is read at all three
  // alignments, which triples the false-positive rate but loses no impression before or after the
  // foreign bytes.
  bool add_shard(std::string_view shard);
  // For each item, in order: true if it was added, or for a false positive. Costs about 1 ns per
  // impression in the shards and 20 ns per item.
  std::vector<bool> contains(std::uint64_t reader_hash, const std::vector<ItemId>& items) const;

 private:
  struct Shard {
    std::string bytes;
    std::size_t alignments = 1;  // 3: read from each of the first three bytes on
  };
  std::vector<Shard> shards_;
};

}  // namespace freshet::feed
