// The seen-filter's data structure: fingerprints of impressions in small tables that grow with what is in
// them.
//
// A UTC day's filter is cut into shards; a hash of the reader picks the shard, so all that a reader saw on a
// day lies in one string of about 4 KiB, and eight strings answer for any number of items. Each impression is
// a fingerprint of (reader, item): 6 bits pick one of 64 buckets, the next 16 (more for a lower rate) are
// stored. Readers of a shard share its tables, but not their impressions: the hash is of both.
//
//     shard := bytes of a stored fingerprint (1 byte)  table…
//     table := fingerprints in each bucket (64 bytes)  the fingerprints, bucket by bucket
//
// A table with a full bucket (255) is closed; the next begins behind it. What was added is always found. What
// was not is taken for seen when it meets one of the shard's n fingerprints:
//     p(day) = 1 − (1 − 2^−22)^n ≈ n / 2^22        P = 1 − Π (1 − p(day)) over eight days
// That depends on the number of impressions and on nothing else: a heavy reader cannot fill anything up, and
// twice the expected impressions give twice the rate and no other harm.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"
#include "core/config/settings.h"

namespace freshet::feed {

inline constexpr int kSeenDays = 8;  // today and the seven days before it: seven full days, always
inline constexpr int kSeenBuckets = 64;
inline constexpr int kMostInBucket = 255;
inline constexpr std::int64_t kShardImpressions = 2048;  // expected in a shard a day
inline constexpr std::int64_t kHeavyImpressions =
    3000;  // a day, of one reader, that the rate still holds for
inline constexpr std::int64_t kMostShardBytes =
    2 << 20;  // about a million impressions a day: no more are taken

// How a day's filter is cut; every day has its own, see text().
struct SeenLayout {
  int width = 2;            // bytes of a stored fingerprint: 2, 3 or 4
  std::int64_t shards = 1;  // > 0

  // "2x489": as it stands in key names, and in the key that says how a day is laid out.
  std::string text() const;
  // nullopt: not what text() writes.
  static std::optional<SeenLayout> parse(std::string_view text);
  bool operator==(const SeenLayout&) const = default;
};

// The smallest fingerprints that keep P ≤ seen.false_positive_rate for a reader of kHeavyImpressions a day in
// an average shard, and as many shards as seen.impressions_per_day need.
SeenLayout seen_layout(const SeenSettings& settings);

// What each of eight days may have so that all together have `combined`: 1 − (1 − P)^(1/8).
double daily_rate(double combined);
// P of eight days with `daily` each.
double combined_rate(double daily);
// p(day): the share of unseen items taken for seen in a shard with `impressions`. The formula above.
double shard_rate(std::int64_t impressions, int width);

// Midnight UTC when an impression of `at` is forgotten: eight days after the day of `at` began.
UnixSeconds forgotten_at(UnixSeconds at);

// --- Hashes: XXH3, 64 bits. The item's is seeded with the reader's, so ("a", "bc") and ("ab", "c") differ.
std::uint64_t reader_hash(const ReaderId& reader);
std::uint64_t impression_hash(std::uint64_t reader_hash, const ItemId& item);
// 0 … shards − 1.
std::int64_t shard_of(std::uint64_t reader_hash, const SeenLayout& layout);
// Impressions as seen_add.lua takes them: each its bucket (1 byte) and its fingerprint, ascending, none
// twice.
std::string seen_entries(std::vector<std::uint64_t> impression_hashes, int width);

// One shard as it lies in Redis, ready to be asked.
class SeenShard {
 public:
  SeenShard() = default;  // nothing was seen
  // O(tables). Bytes that are no shard (someone else wrote them) are ignored from where they make no sense.
  explicit SeenShard(std::string_view bytes);
  // About 8 ns. True for every impression added, and for p(day) of the others.
  bool contains(std::uint64_t impression_hash) const;
  std::int64_t impressions() const { return impressions_; }

 private:
  struct Table {
    std::array<std::uint32_t, kSeenBuckets + 1> begins{};  // in bytes_, of each bucket; the last: the end
  };
  std::string bytes_;
  std::vector<Table> tables_;
  std::int64_t impressions_ = 0;
  int width_ = 2;
};

}  // namespace freshet::feed
