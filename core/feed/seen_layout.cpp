#include "core/feed/seen_layout.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

namespace freshet::feed {
namespace {

constexpr int kFingerprintBits = 8 * static_cast<int>(kFingerprintBytes);

std::uint32_t fingerprint_at(const char* bytes) {
  const auto byte = [bytes](int at) { return std::uint32_t{static_cast<unsigned char>(bytes[at])}; };
  return byte(0) | byte(1) << 8 | byte(2) << 16;
}

}  // namespace

std::int64_t shard_count_for(std::int64_t impressions_per_day) {
  return std::max<std::int64_t>(1, (impressions_per_day + kImpressionsPerShard - 1) / kImpressionsPerShard);
}

double daily_false_positive_rate(double combined) { return -std::expm1(std::log1p(-combined) / kSeenDays); }

double shard_false_positive_rate(std::int64_t impressions) {
  return -std::expm1(static_cast<double>(impressions) * std::log1p(-std::ldexp(1, -kFingerprintBits)));
}

UnixSeconds filter_expires_at(UnixSeconds at) {
  return std::chrono::floor<std::chrono::days>(at) + std::chrono::days(kSeenDays);
}

std::uint64_t reader_hash(const ReaderId& reader) {
  return XXH3_64bits(reader.view().data(), reader.view().size());
}

std::int64_t shard_of(std::uint64_t reader_hash, std::int64_t shards) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>((Wide{reader_hash} * static_cast<std::uint64_t>(shards)) >> 64);
}

std::uint32_t fingerprint_of(std::uint64_t reader_hash, const ItemId& item) {
  const std::uint64_t hash = XXH3_64bits_withSeed(item.view().data(), item.view().size(), reader_hash);
  return static_cast<std::uint32_t>(hash) & ((1U << kFingerprintBits) - 1);
}

std::string encode_fingerprints(std::uint64_t reader_hash, const std::vector<ItemId>& items) {
  std::string out;
  out.reserve(items.size() * kFingerprintBytes);
  for (const ItemId& item : items) {
    const std::uint32_t fingerprint = fingerprint_of(reader_hash, item);
    for (int shift = 0; shift < kFingerprintBits; shift += 8)
      out += static_cast<char>(fingerprint >> shift & 0xff);
  }
  return out;
}

bool FingerprintSet::add_shard(std::string_view shard) {
  const bool is_aligned = shard.size() % kFingerprintBytes == 0;
  if (!shard.empty()) shards_.push_back({std::string(shard), is_aligned ? 1 : kFingerprintBytes});
  return is_aligned;
}

// Few items are looked up in possibly large shards. A table indexed by the low 14 bits of the
// wanted fingerprints filters a single pass over the shards.
std::vector<bool> FingerprintSet::contains(std::uint64_t reader_hash,
                                           const std::vector<ItemId>& items) const {
  constexpr std::uint32_t kTableSize = 1U << 14;
  std::vector<bool> wanted(kTableSize);
  std::vector<std::uint64_t> fingerprints;  // fingerprint << 32 | index of the item
  fingerprints.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::uint32_t fingerprint = fingerprint_of(reader_hash, items[i]);
    fingerprints.push_back(std::uint64_t{fingerprint} << 32 | i);
    wanted[fingerprint % kTableSize] = true;
  }
  std::sort(fingerprints.begin(), fingerprints.end());
  std::vector<bool> out(items.size());
  const auto mark_matches = [&](std::uint32_t fingerprint) {
    for (auto at =
             std::lower_bound(fingerprints.begin(), fingerprints.end(), std::uint64_t{fingerprint} << 32);
         at != fingerprints.end() && *at >> 32 == fingerprint; ++at)
      out[*at & 0xFFFFFFFF] = true;
  };
  for (const Shard& shard : shards_) {
    const char* const end = shard.bytes.data() + shard.bytes.size();
    for (std::size_t from = 0; from < shard.alignments; ++from) {
      for (const char* at = shard.bytes.data() + from; end - at >= std::ptrdiff_t{kFingerprintBytes};
           at += kFingerprintBytes) {
        const std::uint32_t fingerprint = fingerprint_at(at);
        if (wanted[fingerprint % kTableSize]) mark_matches(fingerprint);
      }
    }
  }
  return out;
}

}  // namespace freshet::feed
