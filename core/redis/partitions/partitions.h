// Partitions: in a Redis Cluster the keys that all articles share are split into partitions, each
// in a slot of its own, so that the load is spread over the masters. A single Redis has one
// partition.
//
// Partitions are spaced evenly over the 16,384 slots: partition p of P is in slot (p + 1/2) ·
// 16384/P. An article belongs to the partition whose range of slots it hashes into. Where masters
// have equal ranges, its own keys are thus mostly on the master of its partition, and become
// unavailable together with it.
#pragma once

#include <cstdint>
#include <string_view>

namespace freshet::redis {

inline constexpr unsigned kMaxPartitions = 64;

// Powers of two up to kMaxPartitions. Different partition counts have no hash tag in common.
constexpr bool is_valid_partition_count(std::int64_t partitions) {
  return partitions >= 1 && partitions <= kMaxPartitions && (partitions & (partitions - 1)) == 0;
}

// The partition of an article, 0..partitions − 1, by the slot of its keys: like them, it depends on
// the encoded id (key_encoding.h). Must never change. REQUIRES:
// is_valid_partition_count(partitions).
unsigned partition_of(std::string_view id, unsigned partitions);

// The hash tag of a partition's keys. REQUIRES: is_valid_partition_count(partitions), partition <
// partitions.
std::string_view partition_hash_tag(unsigned partition, unsigned partitions);

// The inverse: the partition with this hash tag, and of how many. partition_count 0: not a
// partition's tag.
struct TaggedPartition {
  unsigned partition = 0, partition_count = 0;
};
TaggedPartition partition_of_hash_tag(std::string_view tag);

}  // namespace freshet::redis
