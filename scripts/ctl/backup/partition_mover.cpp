#include "scripts/ctl/backup/partition_mover.h"

#include <map>
#include <utility>

#include "scripts/ctl/check/key_names.h"

namespace freshet::ctl {

std::string key_in_partition(std::string_view name, const redis::PartitionKeys& partition) {
  if (name == "hot:hidden") return partition.hidden();
  if (name == "hot:newest") return partition.newest();
  if (name == "hot:unlisted") return partition.unverified();
  if (const auto tag = strip_key_prefix(name, "tag:")) return partition.tagged_items(*tag);
  return {};
}

PartitionMover::PartitionMover(const RedisSettings& settings)
    : prefix_size_(settings.key_prefix.size()),
      keys_(settings),
      names_(settings.key_prefix, redis::Keys::Topology::kCluster) {}

bool PartitionMover::is_misplaced(std::string_view key, const redis::KeyPattern& row) const {
  const bool is_shared = (row.pattern.starts_with("hot:") && row.pattern.find('{') == row.pattern.npos) ||
                         row.pattern == "tag:*";
  if (!is_shared) return false;
  const bool has_tag = key.size() > prefix_size_ + names_.strip_prefix(key)->size();
  return has_tag != keys_.in_cluster() || keys_.has_other_partition_count(key);
}

std::vector<DumpRecord> PartitionMover::move(const DumpRecord& record) const {
  const std::string name = *names_.strip_prefix(record.key);
  if (name == "hot:epoch") {
    DumpRecord moved = record;
    moved.key = keys_.epoch();
    return {std::move(moved)};
  }
  if (key_in_partition(name, keys_.partition(0)).empty()) return {};
  const std::size_t step = record.type == DumpRecord::Type::kSortedSet ? 2 : 1;
  std::map<unsigned, std::vector<std::string>> members;
  for (std::size_t i = 0; i + step <= record.members.size(); i += step) {
    std::vector<std::string>& part = members[keys_.partition_of(record.members[i])];
    for (std::size_t j = i; j < i + step; ++j) part.push_back(record.members[j]);
  }
  std::vector<DumpRecord> out;
  for (auto& [partition, part] : members)
    out.push_back({record.type,
                   key_in_partition(name, keys_.partition(partition)),
                   record.expires_ms,
                   {},
                   std::move(part)});
  return out;
}

}  // namespace freshet::ctl
