#include "core/base/token_bucket_table.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <system_error>
#include <utility>

namespace freshet {

struct TokenBucketTable::Header {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t bytes;
  std::uint64_t seed;
  std::uint64_t unused[4];
};

namespace {

constexpr std::uint64_t kMagic = 0x7374696d696c7266;  // "frlimits"
constexpr std::uint64_t kVersion = 1;

constexpr int kTimeBits = 44;
constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << kTimeBits) - 1;
// The longest time to full, including debt. A time that appears to be further ahead is in the past.
constexpr std::int64_t kMaxTimeToFull = std::int64_t{1} << 39;
constexpr std::int64_t kMaxCapacity = kMaxTimeToFull / 2;

std::uint64_t tag_of(std::uint64_t key) {
  const std::uint64_t tag = key << kTimeBits;
  return tag == 0 ? std::uint64_t{1} << kTimeBits : tag;
}

bool has_tag(std::uint64_t word, std::uint64_t tag) { return (word & ~kTimeMask) == tag; }

std::uint64_t make_word(std::uint64_t tag, std::int64_t full_at_us) {
  return tag | (static_cast<std::uint64_t>(full_at_us) & kTimeMask);
}

// Time until the bucket is full; negative if it already is.
std::int64_t time_until_full(std::uint64_t word, std::int64_t now_us) {
  const std::uint64_t ahead = (word - static_cast<std::uint64_t>(now_us)) & kTimeMask;
  const auto signed_ahead = static_cast<std::int64_t>(ahead);
  return signed_ahead <= kMaxTimeToFull ? signed_ahead : signed_ahead - (std::int64_t{1} << kTimeBits);
}

// Buckets with the lowest key are evicted first: unused ones, then the fullest.
std::int64_t eviction_key(std::uint64_t word, std::int64_t now_us) {
  return word == 0 ? INT64_MIN : time_until_full(word, now_us);
}

void* map(int file, std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "token bucket table");
  return at;
}

int create_sealed_file(std::size_t bytes) {
  Descriptor file(memfd_create("freshet-limits", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Sealed, so that no process can shrink the file and crash the others with SIGBUS.
  if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw std::system_error(errno, std::generic_category(), "token bucket table");
  return file.release();
}

}  // namespace

TokenRate token_rate(double per_second, double burst) {
  const double interval = std::clamp(std::ceil(1e6 / per_second), 1.0, static_cast<double>(kMaxCapacity));
  const double tokens = std::clamp(burst, 1.0, std::floor(static_cast<double>(kMaxCapacity) / interval));
  return {static_cast<std::int64_t>(interval), static_cast<std::int64_t>(interval * tokens)};
}

TokenBucketTable::TokenBucketTable(Descriptor file, std::size_t bytes)
    : file_(std::move(file)),
      bytes_(bytes),
      memory_(map(file_.get(), bytes)),
      sets_((bytes - sizeof(Header)) / kWordSetBytes) {
  static_assert(sizeof(Header) == kWordSetBytes);
}

TokenBucketTable::TokenBucketTable(std::size_t bytes)
    : TokenBucketTable(Descriptor(create_sealed_file(std::max(bytes, kMinBytes))),
                       std::max(bytes, kMinBytes)) {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
    throw std::system_error(errno, std::generic_category(), "token bucket table");
  header() = Header{kMagic, kVersion, bytes_, seed, {}};
}

Result<TokenBucketTable> TokenBucketTable::adopt(Descriptor file, std::size_t bytes) {
  bytes = std::max(bytes, kMinBytes);
  const auto mismatch = [](const char* reason) {
    return fail(ErrorCode::kConflict, "limit_table_mismatch", {}, reason);
  };
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || (fcntl(file.get(), F_GET_SEALS) & F_SEAL_SHRINK) == 0)
    return mismatch("not a token bucket table");
  if (static_cast<std::size_t>(status.st_size) != bytes) return mismatch("different size");
  TokenBucketTable table(std::move(file), bytes);
  const Header& head = table.header();
  if (head.magic != kMagic) return mismatch("not a token bucket table");
  if (head.version != kVersion) return mismatch("different version");
  if (head.bytes != bytes) return mismatch("different size");
  return table;
}

TokenBucketTable::TokenBucketTable(TokenBucketTable&& other) noexcept
    : file_(std::move(other.file_)),
      bytes_(other.bytes_),
      memory_(std::exchange(other.memory_, nullptr)),
      sets_(other.sets_) {}

TokenBucketTable::~TokenBucketTable() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

TokenBucketTable::Header& TokenBucketTable::header() const { return *static_cast<Header*>(memory_); }

std::uint64_t TokenBucketTable::seed() const { return header().seed; }

WordSet TokenBucketTable::set_for(std::uint64_t key) const {
  return word_set_for(static_cast<std::byte*>(memory_) + sizeof(Header), sets_, key);
}

template <class NewTimeToFull>
void TokenBucketTable::update(std::uint64_t key, std::int64_t now_us, std::int64_t max_us,
                              const NewTimeToFull& new_time_to_full) {
  const std::uint64_t tag = tag_of(key);
  update_word(
      set_for(key), [&](std::uint64_t word) { return has_tag(word, tag); },
      [&](std::uint64_t word) { return eviction_key(word, now_us); },
      [&](std::uint64_t word) {
        const std::int64_t current =
            has_tag(word, tag) ? std::max<std::int64_t>(0, time_until_full(word, now_us)) : 0;
        const std::int64_t updated = new_time_to_full(std::min(current, max_us));
        return updated == current ? word : make_word(tag, now_us + updated);
      });
}

TakeResult TokenBucketTable::take(std::uint64_t key, const TokenRate& rate, std::int64_t now_us,
                                  std::int64_t cost_us) {
  const std::int64_t cost = std::min(cost_us, rate.capacity_us);
  TakeResult result;
  update(key, now_us, 2 * rate.capacity_us, [&](std::int64_t current) {
    const std::int64_t shortfall = current + cost - rate.capacity_us;
    result = shortfall > 0 ? TakeResult{false, shortfall, current} : TakeResult{true, 0, current + cost};
    return result.time_to_full_us;
  });
  return result;
}

std::int64_t TokenBucketTable::charge(std::uint64_t key, const TokenRate& rate, std::int64_t now_us,
                                      std::int64_t cost_us) {
  const std::int64_t max_us = 2 * rate.capacity_us;
  std::int64_t time_to_full = 0;
  update(key, now_us, max_us,
         [&](std::int64_t current) { return time_to_full = std::min(current + cost_us, max_us); });
  return time_to_full;
}

std::int64_t TokenBucketTable::time_to_full_us(std::uint64_t key, std::int64_t now_us) const {
  const std::uint64_t tag = tag_of(key);
  for (const SharedWord& each : set_for(key)) {
    const std::uint64_t word = each.load(std::memory_order_relaxed);
    if (has_tag(word, tag)) return std::max<std::int64_t>(0, time_until_full(word, now_us));
  }
  return 0;
}

}  // namespace freshet
