#include "core/rank/seen_layout.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

namespace freshet::rank {
namespace {

constexpr int kBucketBits = 6;
constexpr int kWidest = 4;

static_assert(1 << kBucketBits == kSeenBuckets);

// The bucket from the hash's top, the stored bytes from its low end.
std::size_t bucket_of(std::uint64_t hash) { return hash >> (64 - kBucketBits); }

std::array<char, kWidest> fingerprint_of(std::uint64_t hash) {
  std::array<char, kWidest> out;
  for (char& byte : out) {
    byte = static_cast<char>(hash & 0xff);
    hash >>= 8;
  }
  return out;
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string SeenLayout::text() const { return std::to_string(width) + "x" + std::to_string(shards); }

std::optional<SeenLayout> SeenLayout::parse(std::string_view text) {
  const std::size_t cross = text.find('x');
  if (cross == text.npos) return std::nullopt;
  const auto width = number<int>(text.substr(0, cross));
  const auto shards = number<std::int64_t>(text.substr(cross + 1));
  if (!width || *width < 2 || *width > kWidest || !shards || *shards < 1) return std::nullopt;
  return SeenLayout{*width, *shards};
}

double daily_rate(double combined) { return -std::expm1(std::log1p(-combined) / kSeenDays); }
double combined_rate(double daily) { return -std::expm1(std::log1p(-daily) * kSeenDays); }

double shard_rate(std::int64_t impressions, int width) {
  return -std::expm1(static_cast<double>(impressions) * std::log1p(-std::ldexp(1, -kBucketBits - 8 * width)));
}

SeenLayout seen_layout(const SeenSettings& settings) {
  SeenLayout out;
  const double allowed = daily_rate(settings.false_positive_rate);
  while (out.width < kWidest && shard_rate(kShardImpressions + kHeavyImpressions, out.width) > allowed)
    ++out.width;
  out.shards =
      std::max<std::int64_t>(1, (settings.impressions_per_day + kShardImpressions - 1) / kShardImpressions);
  return out;
}

UnixSeconds forgotten_at(UnixSeconds at) {
  return std::chrono::floor<std::chrono::days>(at) + std::chrono::days(kSeenDays);
}

std::uint64_t reader_hash(const ReaderId& reader) {
  return XXH3_64bits(reader.view().data(), reader.view().size());
}

std::uint64_t impression_hash(std::uint64_t reader_hash, const ItemId& item) {
  return XXH3_64bits_withSeed(item.view().data(), item.view().size(), reader_hash);
}

std::int64_t shard_of(std::uint64_t reader_hash, const SeenLayout& layout) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>((Wide{reader_hash} * static_cast<std::uint64_t>(layout.shards)) >> 64);
}

std::string seen_entries(std::vector<std::uint64_t> impression_hashes, int width) {
  std::vector<std::string> entries;
  entries.reserve(impression_hashes.size());
  for (const std::uint64_t hash : impression_hashes) {
    std::string& entry = entries.emplace_back(1, static_cast<char>(bucket_of(hash)));
    entry.append(fingerprint_of(hash).data(), static_cast<std::size_t>(width));
  }
  std::sort(entries.begin(), entries.end());  // compares as unsigned: buckets ascend
  entries.erase(std::unique(entries.begin(), entries.end()), entries.end());
  std::string out;
  out.reserve(entries.size() * static_cast<std::size_t>(width + 1));
  for (const std::string& entry : entries) out += entry;
  return out;
}

SeenShard::SeenShard(std::string_view bytes) {
  if (bytes.empty() || bytes[0] < 2 || bytes[0] > kWidest) return;
  width_ = bytes[0];
  bytes_ = bytes;
  std::size_t at = 1;
  while (bytes.size() - at >= kSeenBuckets) {
    Table table;
    std::size_t from = at + kSeenBuckets;
    for (std::size_t bucket = 0; bucket < kSeenBuckets; ++bucket) {
      table.begins[bucket] = static_cast<std::uint32_t>(from);
      from += static_cast<unsigned char>(bytes[at + bucket]) * static_cast<std::size_t>(width_);
    }
    table.begins[kSeenBuckets] = static_cast<std::uint32_t>(from);
    if (from > bytes.size()) return;
    impressions_ += static_cast<std::int64_t>(from - at - kSeenBuckets) / width_;
    tables_.push_back(table);
    at = from;
  }
}

// memchr looks at 32 bytes a step; one fingerprint in 256 has the byte it stops at.
bool SeenShard::contains(std::uint64_t impression_hash) const {
  const std::size_t bucket = bucket_of(impression_hash);
  const auto wanted = fingerprint_of(impression_hash);
  const auto width = static_cast<std::size_t>(width_);
  for (const Table& table : tables_) {
    const char* const begin = bytes_.data() + table.begins[bucket];
    const char* const end = bytes_.data() + table.begins[bucket + 1];
    for (const char* at = begin; at < end; ++at) {
      at = static_cast<const char*>(std::memchr(at, wanted[0], static_cast<std::size_t>(end - at)));
      if (at == nullptr) break;
      if (static_cast<std::size_t>(at - begin) % width == 0 && std::memcmp(at, wanted.data(), width) == 0)
        return true;
    }
  }
  return false;
}

}  // namespace freshet::rank
