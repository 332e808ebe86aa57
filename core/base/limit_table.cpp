#include "core/base/limit_table.h"

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

struct LimitTable::Head {
  std::uint64_t magic;
  std::uint64_t version;
  std::uint64_t bytes;
  std::uint64_t seed;
  std::uint64_t unused[4];
};

namespace {

constexpr std::uint64_t kMagic = 0x7374696d696c7266;  // "frlimits"
constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kSetBytes = 64;

constexpr int kMomentBits = 44;
constexpr std::uint64_t kMomentMask = (std::uint64_t{1} << kMomentBits) - 1;
// The longest that filling a bucket takes, with its debt. A moment that seems to be farther off was
// long ago.
constexpr std::int64_t kMostFill = std::int64_t{1} << 39;
constexpr std::int64_t kMostCapacity = kMostFill / 2;

constexpr auto kRelaxed = std::memory_order_relaxed;

std::uint64_t tag_of(std::uint64_t key) {
  const std::uint64_t tag = key << kMomentBits;
  return tag == 0 ? std::uint64_t{1} << kMomentBits : tag;
}

bool has_tag(std::uint64_t word, std::uint64_t tag) { return (word & ~kMomentMask) == tag; }

std::uint64_t word_of(std::uint64_t tag, std::int64_t moment_us) {
  return tag | (static_cast<std::uint64_t>(moment_us) & kMomentMask);
}

// Until the moment, negative when it has passed.
std::int64_t until(std::uint64_t word, std::int64_t now_us) {
  const std::uint64_t ahead = (word - static_cast<std::uint64_t>(now_us)) & kMomentMask;
  const auto signed_ahead = static_cast<std::int64_t>(ahead);
  return signed_ahead <= kMostFill ? signed_ahead : signed_ahead - (std::int64_t{1} << kMomentBits);
}

// By which the fullest is found: nobody's first.
std::int64_t emptiness(std::uint64_t word, std::int64_t now_us) {
  return word == 0 ? INT64_MIN : until(word, now_us);
}

void* map(int file, std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "limit table");
  return at;
}

int new_file(std::size_t bytes) {
  Descriptor file(memfd_create("freshet-limits", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Sealed: memory that somebody cut off would end whoever touches it.
  if (file.get() < 0 || ftruncate(file.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw std::system_error(errno, std::generic_category(), "limit table");
  return file.release();
}

}  // namespace

TokenRate token_rate(double per_second, double burst) {
  const double interval = std::clamp(std::ceil(1e6 / per_second), 1.0, static_cast<double>(kMostCapacity));
  const double tokens = std::clamp(burst, 1.0, std::floor(static_cast<double>(kMostCapacity) / interval));
  return {static_cast<std::int64_t>(interval), static_cast<std::int64_t>(interval * tokens)};
}

LimitTable::LimitTable(Descriptor file, std::size_t bytes)
    : file_(std::move(file)),
      bytes_(bytes),
      memory_(map(file_.get(), bytes)),
      sets_((bytes - sizeof(Head)) / kSetBytes) {
  static_assert(sizeof(Head) == kSetBytes);
}

LimitTable::LimitTable(std::size_t bytes)
    : LimitTable(Descriptor(new_file(std::max(bytes, kLeastBytes))), std::max(bytes, kLeastBytes)) {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
    throw std::system_error(errno, std::generic_category(), "limit table");
  head() = Head{kMagic, kVersion, bytes_, seed, {}};
}

Result<LimitTable> LimitTable::adopt(Descriptor file, std::size_t bytes) {
  bytes = std::max(bytes, kLeastBytes);
  const auto other = [](const char* why) { return fail(ErrorCode::kConflict, "other_table", {}, why); };
  struct stat status {};
  if (fstat(file.get(), &status) != 0 || (fcntl(file.get(), F_GET_SEALS) & F_SEAL_SHRINK) == 0)
    return other("no table");
  if (static_cast<std::size_t>(status.st_size) != bytes) return other("of another size");
  LimitTable table(std::move(file), bytes);
  const Head& head = table.head();
  if (head.magic != kMagic) return other("no table");
  if (head.version != kVersion) return other("of another version");
  if (head.bytes != bytes) return other("of another size");
  return table;
}

LimitTable::LimitTable(LimitTable&& other) noexcept
    : file_(std::move(other.file_)),
      bytes_(other.bytes_),
      memory_(std::exchange(other.memory_, nullptr)),
      sets_(other.sets_) {}

LimitTable::~LimitTable() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

LimitTable::Head& LimitTable::head() const { return *static_cast<Head*>(memory_); }

std::uint64_t LimitTable::seed() const { return head().seed; }

// By the key's high bits; the tag is of its low ones.
std::span<LimitTable::Word, 8> LimitTable::set_of(std::uint64_t key) const {
  const std::size_t set = ((key >> 32U) * sets_) >> 32U;
  auto* const first = static_cast<std::byte*>(memory_) + sizeof(Head) + set * kSetBytes;
  return std::span<Word, 8>(reinterpret_cast<Word*>(first), 8);
}

template <class Next>
void LimitTable::change(std::uint64_t key, std::int64_t now_us, std::int64_t most_us, const Next& next) {
  const std::uint64_t tag = tag_of(key);
  const auto set = set_of(key);
  for (;;) {
    Word* place = set.data();
    std::uint64_t seen = place->load(kRelaxed);
    for (Word& each : set) {
      const std::uint64_t word = each.load(kRelaxed);
      const bool own = has_tag(word, tag);
      if (!own && emptiness(word, now_us) >= emptiness(seen, now_us)) continue;
      place = &each;
      seen = word;
      if (own) break;
    }
    const std::int64_t known = has_tag(seen, tag) ? std::max<std::int64_t>(0, until(seen, now_us)) : 0;
    const std::int64_t fill = next(std::min(known, most_us));
    if (fill == known || place->compare_exchange_weak(seen, word_of(tag, now_us + fill), kRelaxed)) return;
  }
}

Taken LimitTable::take(std::uint64_t key, const TokenRate& rate, std::int64_t now_us, std::int64_t cost_us) {
  const std::int64_t cost = std::min(cost_us, rate.capacity_us);
  Taken taken;
  change(key, now_us, 2 * rate.capacity_us, [&](std::int64_t fill) {
    const std::int64_t lacking = fill + cost - rate.capacity_us;
    taken = lacking > 0 ? Taken{false, lacking, fill} : Taken{true, 0, fill + cost};
    return taken.fill_us;
  });
  return taken;
}

std::int64_t LimitTable::charge(std::uint64_t key, const TokenRate& rate, std::int64_t now_us,
                                std::int64_t cost_us) {
  const std::int64_t most = 2 * rate.capacity_us;
  std::int64_t filled = 0;
  change(key, now_us, most, [&](std::int64_t fill) { return filled = std::min(fill + cost_us, most); });
  return filled;
}

std::int64_t LimitTable::fill_us(std::uint64_t key, std::int64_t now_us) const {
  const std::uint64_t tag = tag_of(key);
  for (const Word& each : set_of(key)) {
    const std::uint64_t word = each.load(kRelaxed);
    if (has_tag(word, tag)) return std::max<std::int64_t>(0, until(word, now_us));
  }
  return 0;
}

}  // namespace freshet
