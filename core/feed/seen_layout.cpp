#include "core/feed/seen_layout.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>

namespace freshet::feed {
namespace {

constexpr int kPrintBits = 8 * static_cast<int>(kPrintBytes);

std::uint32_t print_at(const char* bytes) {
  const auto byte = [bytes](int at) { return std::uint32_t{static_cast<unsigned char>(bytes[at])}; };
  return byte(0) | byte(1) << 8 | byte(2) << 16;
}

}  // namespace

std::int64_t shards_for(std::int64_t impressions_per_day) {
  return std::max<std::int64_t>(1, (impressions_per_day + kShardImpressions - 1) / kShardImpressions);
}

double daily_rate(double combined) { return -std::expm1(std::log1p(-combined) / kSeenDays); }

double shard_rate(std::int64_t impressions) {
  return -std::expm1(static_cast<double>(impressions) * std::log1p(-std::ldexp(1, -kPrintBits)));
}

UnixSeconds forgotten_at(UnixSeconds at) {
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
  return static_cast<std::uint32_t>(hash) & ((1U << kPrintBits) - 1);
}

std::string seen_bytes(std::uint64_t reader_hash, const std::vector<ItemId>& items) {
  std::string out;
  out.reserve(items.size() * kPrintBytes);
  for (const ItemId& item : items) {
    const std::uint32_t print = fingerprint_of(reader_hash, item);
    for (int shift = 0; shift < kPrintBits; shift += 8) out += static_cast<char>(print >> shift & 0xff);
  }
  return out;
}

bool SeenPrints::add(std::string_view shard) {
  const bool whole = shard.size() % kPrintBytes == 0;
  if (!shard.empty()) shards_.push_back({std::string(shard), whole ? 1 : kPrintBytes});
  return whole;
}

// What is asked for is few, what the shards hold may be much: a table of the former, by half of the
// fingerprint, and one walk through the latter.
std::vector<bool> SeenPrints::contain(std::uint64_t reader_hash, const std::vector<ItemId>& items) const {
  constexpr std::uint32_t kTable = 1U << 14;
  std::vector<bool> wanted(kTable);
  std::vector<std::uint64_t> prints;  // the fingerprint, and below it the item's place
  prints.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::uint32_t print = fingerprint_of(reader_hash, items[i]);
    prints.push_back(std::uint64_t{print} << 32 | i);
    wanted[print % kTable] = true;
  }
  std::sort(prints.begin(), prints.end());
  std::vector<bool> out(items.size());
  const auto meet = [&](std::uint32_t print) {
    for (auto at = std::lower_bound(prints.begin(), prints.end(), std::uint64_t{print} << 32);
         at != prints.end() && *at >> 32 == print; ++at)
      out[*at & 0xFFFFFFFF] = true;
  };
  for (const Shard& shard : shards_) {
    const char* const end = shard.bytes.data() + shard.bytes.size();
    for (std::size_t from = 0; from < shard.readings; ++from) {
      for (const char* at = shard.bytes.data() + from; end - at >= std::ptrdiff_t{kPrintBytes};
           at += kPrintBytes) {
        const std::uint32_t print = print_at(at);
        if (wanted[print % kTable]) meet(print);
      }
    }
  }
  return out;
}

}  // namespace freshet::feed
