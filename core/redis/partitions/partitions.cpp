#include "core/redis/partitions/partitions.h"

#include <bit>
#include <string>

#include "core/redis/cluster/slot.h"
#include "core/redis/partitions/key_encoding.h"

namespace freshet::redis {
namespace {

// Row i hashes to slot 128 · i ± 1; it is the first text of three letters or digits that does.
constexpr unsigned kTags = 2 * kMaxPartitions;
constexpr std::size_t kTagBytes = 3;
constexpr std::string_view kTagTable =
    "la2ht4nbdjwbms3if5opekecdljhpt3el7pjmwsakmg95zc3qf7lx9bgqfrwpt6mj8cupoinqbwduabc1fv7arfmnxcq0gd6"
    "lp0he6nsfboxmb1iw7oagc9qltphav3tnbk8eoiazo2focy9h85ub3bvsfcupe4tp2cdrgqtqsuddcbr3fg5acdevb6jbgu4"
    "fjljvr1cjyw4gxmcmk0qkxe5ng4jr2dmzhqdou5blkmvcicebfafsg5ogdp1c0hgafaw6eb0jk9wu7hhodtqky8vg6asvefp"
    "nrvbnhdx8yf6gioc8aej9xt7nv6jc0d8pqknod7kq1enyirgbwcfbeaquda3cebgpdaf4es2sq3wd5hymdesrc2o94abtewr";
static_assert(kTagTable.size() == kTags * kTagBytes);

}  // namespace

unsigned partition_of(std::string_view id, unsigned partitions) {
  if (encoded_size(id) == id.size()) return slot_of(id) * partitions / kSlots;
  std::string encoded;
  append_encoded(encoded, id);
  return slot_of(encoded) * partitions / kSlots;
}

// Row (p + 1/2) / P of the table: an odd multiple of kMaxPartitions / P, which identifies P.
std::string_view partition_hash_tag(unsigned partition, unsigned partitions) {
  return kTagTable.substr((2 * partition + 1) * (kMaxPartitions / partitions) * kTagBytes, kTagBytes);
}

TaggedPartition partition_of_hash_tag(std::string_view tag) {
  if (tag.size() != kTagBytes) return {};
  for (unsigned row = 1; row < kTags; ++row) {
    if (kTagTable.substr(row * kTagBytes, kTagBytes) != tag) continue;
    const unsigned step = 1U << static_cast<unsigned>(std::countr_zero(row));
    return {row / step / 2, kMaxPartitions / step};
  }
  return {};
}

}  // namespace freshet::redis
