// What readers have seen, in bytes: three for an impression.
//
// A UTC day's filter is cut into shards; a hash of the reader picks the shard, so all that a reader
// saw on a day lies in one string of about 1.5 KiB, and eight strings answer for any number of
// items. A shard is fingerprints of 24 bits, one behind the other, in the order in which they came;
// one that came twice stands there twice. The fingerprint is of both reader and item: readers of a
// shard share its bytes, but not their impressions.
//
// What was added is always found. What was not is taken for seen when it meets one of the shard's n
// fingerprints:
//     p(day) = 1 − (1 − 2^−24)^n ≈ n / 2^24        P = 1 − Π (1 − p(day)) over eight days
// That depends on the number of impressions and on nothing else: 0.024 % over eight days in shards
// that hold what they were made for, 0.17 % for a reader of 3,000 impressions a day. Twice as many
// as expected give twice the rate and no other harm.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"

namespace freshet::feed {

inline constexpr int kSeenDays = 8;  // today and the seven days before it: seven full days, always
inline constexpr std::size_t kFingerprintBytes = 3;
inline constexpr std::int64_t kImpressionsPerShard = 512;  // expected in a shard a day
// About 700,000 impressions a day: no more are taken.
inline constexpr std::int64_t kMaxShardBytes = 2 << 20;

// Into how many shards a day is cut for which so many impressions are expected. ≥ 1.
std::int64_t shard_count_for(std::int64_t impressions_per_day);

// What each of eight days may have so that all together have `combined`: 1 − (1 − P)^(1/8).
double daily_false_positive_rate(double combined);
// p(day): the share of unseen items taken for seen in a shard with `impressions`. The formula
// above.
double shard_false_positive_rate(std::int64_t impressions);

// Midnight UTC when an impression of `at` is forgotten: eight days after the day of `at` began.
UnixSeconds filter_expires_at(UnixSeconds at);

// XXH3, 64 bits.
std::uint64_t reader_hash(const ReaderId& reader);
// 0 … shards − 1.
std::int64_t shard_of(std::uint64_t reader_hash, std::int64_t shards);
// Below 2^24. The item's hash is seeded with the reader's, so ("a", "bc") and ("ab", "c") differ.
std::uint32_t fingerprint_of(std::uint64_t reader_hash, const ItemId& item);
// As they are appended to a shard.
std::string encode_fingerprints(std::uint64_t reader_hash, const std::vector<ItemId>& items);

// What a reader's shards hold, ready to be asked.
class FingerprintSet {
 public:
  // A shard as it lies in Redis, "" for none. False: its length is no multiple of three, so
  // somebody else wrote into it. Then it is read from each of its first three bytes on, at three
  // times the rate: what was added is still found, before that and behind it.
  bool add_shard(std::string_view shard);
  // Of each item, in order: true for every one that was added, and for P of the others. About 1 ns
  // for an impression of the shards, and 20 for an item.
  std::vector<bool> contains(std::uint64_t reader_hash, const std::vector<ItemId>& items) const;

 private:
  struct Shard {
    std::string bytes;
    std::size_t alignments = 1;  // 3: from each of the first three bytes on
  };
  std::vector<Shard> shards_;
};

}  // namespace freshet::feed
