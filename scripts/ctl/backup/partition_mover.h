// Moves the keys that articles share to the partitions of this Redis (core/redis/partitions) when a
// backup has other ones: it is of a cluster with another redis.partitions, or of a standalone
// server and loaded into a cluster, or the reverse.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "scripts/ctl/backup/redis_dump.h"

namespace freshet::ctl {

// The partition's key for members of the key with this name, without prefix and hash tag. Empty if
// hot::rebuild_ranks() writes the key instead.
std::string key_in_partition(std::string_view name, const redis::PartitionKeys& partition);

class PartitionMover {
 public:
  explicit PartitionMover(const RedisSettings& settings);
  // Names in any number of partitions.
  const redis::Keys& names() const { return names_; }
  // Returns whether the key, of this row, belongs to other partitions and must be moved. Streams
  // are not moved: reconcile() records their entries.
  bool is_misplaced(std::string_view key, const redis::KeyPattern& row) const;
  // The records to write instead of `record`. REQUIRES: is_misplaced().
  std::vector<DumpRecord> move(const DumpRecord& record) const;

 private:
  const std::size_t prefix_size_;
  const redis::Keys keys_, names_;
};

}  // namespace freshet::ctl
