// Articles in groups: on a Redis Cluster what all articles share is cut into as many parts, each in
// a slot of its own, so that no master carries it all. One Redis has one group.
//
// The parts lie evenly in the 16,384 slots: that of group g of G in slot (g + 1/2) · 16384/G. An
// article is in the group whose part of the slots it hashes into, so where masters have equal
// ranges its own keys are mostly on the master that has its group, and fall with it.
#pragma once

#include <cstdint>
#include <string_view>

namespace freshet::redis {

inline constexpr unsigned kMaxPartitions = 64;

// Powers of two up to kMostGroups: two different numbers of groups have no tag in common.
constexpr bool is_valid_partition_count(std::int64_t partitions) {
  return partitions >= 1 && partitions <= kMaxPartitions && (partitions & (partitions - 1)) == 0;
}

// Which group an article is in, 0..groups − 1; the same for ever. REQUIRES: is_group_count(groups).
unsigned partition_of(std::string_view id, unsigned partitions);

// What stands in the braces of a group's names. REQUIRES: is_group_count(groups), group < groups.
std::string_view partition_hash_tag(unsigned partition, unsigned partitions);

// The other way: which group of how many has this tag. groups 0: none has.
struct TaggedPartition {
  unsigned partition = 0, partition_count = 0;
};
TaggedPartition partition_of_hash_tag(std::string_view tag);

}  // namespace freshet::redis
