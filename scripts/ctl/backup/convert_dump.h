// Converts the records of a backup whose Redis had schema 2 (DumpReader::has_old_schema()):
// encodes ids in key names, brings ids into Normalization Form C and the keys of tags and authors
// into their folded form, replaces separators and marks, and in a cluster moves members to the
// partition that their article is in now.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "scripts/ctl/backup/redis_dump.h"
#include "scripts/ctl/backup/repeat_erasures.h"

namespace freshet::ctl {

class DumpConverter {
 public:
  explicit DumpConverter(const RedisSettings& settings)
      : prefix_(settings.key_prefix), keys_(settings.key_prefix, redis::Keys::Topology::kCluster) {}

  // Reads the dump, to learn which ids change and which become one. Errors: the dump's.
  Result<void> prepare(const std::string& path);
  // The records to write instead of `record`.
  std::vector<DumpRecord> convert(DumpRecord record) const;
  // True if several old keys become this one: their counters must be added.
  bool is_merged(const std::string& key) const { return merged_keys_.contains(key); }
  // Ids that change. Includes those of items.
  const FormerIds& former_ids() const { return former_ids_; }
  // Ids of items and readers that become one with another: as they were, and as they are.
  const std::set<std::pair<std::string, std::string>>& merged_ids() const { return merged_ids_; }

 private:
  struct ConvertedKey {
    std::string key;
    // Ids in it that change: as they were, and as they are.
    std::vector<std::pair<std::string, std::string>> changed_ids;
  };
  ConvertedKey convert_key(const std::string& key) const;
  void convert_members(std::string_view pattern, DumpRecord& record) const;
  std::string convert_fingerprints(std::string_view fingerprints) const;
  std::vector<DumpRecord> split_by_partition(DumpRecord record) const;
  void add_former_readers(const DumpRecord& record);
  Result<void> for_each_record(const std::string& path, const std::function<void(const DumpRecord&)>& each);

  const std::string prefix_;
  const redis::Keys keys_;  // reads names in any number of partitions
  // Fingerprints of ids that change (core/base/fingerprint.h), and those of what they become.
  std::unordered_map<std::string, std::string> changed_fingerprints_;
  FormerIds former_ids_;
  std::set<std::string> merged_keys_;
  std::set<std::pair<std::string, std::string>> merged_ids_;
};

}  // namespace freshet::ctl
