#include "core/feed/seen_layout.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

// Measured by tests/bench/seen_table.cpp (cmake --build build/release --target seen_table), with
// seen.false_positive_rate = 0.01: one reader's own impressions a day, among others (log-normal, 60 a day on
// average) who make a multiple of what a shard is expected to hold; P after eight full days.
//
//     own    load of   in the shard   P measured   formula   bytes an impression
//   a day   the rest          a day            %         %       (of the string)
//      60        0.1            242         0.05      0.05                  2.27
//    3000        0.1           3181         0.61      0.60                  2.02
//      60        1.0           2074         0.41      0.39                  2.03
//     300        1.0           2314         0.44      0.44                  2.03
//    3000        1.0           5012         0.95      0.95                  2.01
//   10000        1.0          11997         2.30      2.26                  2.01
//      60        2.0           4089         0.77      0.78                  2.02
//    3000        2.0           7025         1.35      1.33                  2.01
//      60       10.0          20296         3.82      3.80                  2.01
//    3000       10.0          23231         4.30      4.33                  2.01
//
// The allocator's size classes and the key make it 2.5 bytes of Redis' memory (tests/bench/seen_check.cpp).
//
// Tried first: Bloom blocks of 0.5–4 KiB in levels, a heavy reader's in higher ones. Of 67,500 simulated
// layouts that keep 1 % on average and for 3,000 a day, the best takes 2.28 bytes at 5.8 KiB read a day, 2.49
// at 3.3 KiB; below 2 bytes none does, since every level read costs bits in all of them. Setting bits from a
// script costs Redis 95 µs for 20 items by BITFIELD, 13 µs by BITOP with a mask, but the mask weighs 1–5 KiB
// on the wire and in the spool; a page of fingerprints weighs 60 bytes and costs 33 µs. Storing 12 bits in
// more buckets saves 0.3 bytes and costs 57 µs.
namespace freshet::feed {
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

// Is `wanted` one of `prints`, all of its size?
bool among(std::string_view prints, std::string_view wanted) {
  for (; !prints.empty(); prints.remove_prefix(wanted.size())) {
    if (std::memcmp(prints.data(), wanted.data(), wanted.size()) == 0) return true;
  }
  return false;
}

// The same for two bytes, eight at a time: a refresh asks for 500 items on eight days.
bool among_pairs(std::string_view prints, std::array<char, kWidest> wanted) {
  using Eight [[gnu::vector_size(16)]] = std::uint16_t;
  std::uint16_t one = 0;
  std::memcpy(&one, wanted.data(), sizeof one);
  const Eight same = Eight{} + one;
  Eight found{};
  for (; prints.size() >= sizeof(Eight); prints.remove_prefix(sizeof(Eight))) {
    Eight some;
    std::memcpy(&some, prints.data(), sizeof some);
    found |= static_cast<Eight>(some == same);
  }
  std::array<std::uint64_t, 2> any;
  std::memcpy(any.data(), &found, sizeof any);
  bool last = (any[0] | any[1]) != 0;
  for (; !prints.empty(); prints.remove_prefix(sizeof one)) {
    std::uint16_t each = 0;
    std::memcpy(&each, prints.data(), sizeof each);
    last |= each == one;
  }
  return last;
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

bool SeenShard::contains(std::uint64_t impression_hash) const {
  const std::size_t bucket = bucket_of(impression_hash);
  const auto wanted = fingerprint_of(impression_hash);
  for (const Table& table : tables_) {
    const auto prints = std::string_view(bytes_).substr(table.begins[bucket],
                                                        table.begins[bucket + 1] - table.begins[bucket]);
    if (width_ == 2 ? among_pairs(prints, wanted)
                    : among(prints, {wanted.data(), static_cast<std::size_t>(width_)}))
      return true;
  }
  return false;
}

}  // namespace freshet::feed
