// Per-key checks of `freshetctl check`: name, type, TTL, item counters and length limits.
#pragma once

#include <string>
#include <vector>

#include "core/config/settings.h"
#include "core/hot/article.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"
#include "scripts/ctl/backup/partition_mover.h"
#include "scripts/ctl/check/check.h"
#include "scripts/ctl/check/findings.h"

namespace freshet::ctl {

struct NamedKey {
  std::string key;
  std::string name;  // without prefix and braces
};

class KeyCheck {
 public:
  // All must outlive this.
  KeyCheck(redis::BlockingRedis& redis, const Settings& settings, const redis::Keys& keys, Findings& findings,
           CheckTotals& sums)
      : redis_(redis),
        settings_(settings),
        keys_(keys),
        mover_(settings.redis),
        findings_(findings),
        totals_(sums) {}
  // At most kPageSize keys, each given once. 4 RTT.
  Result<void> check(const std::vector<NamedKey>& keys);

 private:
  bool is_of_other_partitions(const std::string& key, const redis::KeyPattern& row) const;
  Result<void> check_types_and_ttls(const std::vector<NamedKey>& keys);
  Result<void> check_items(const std::vector<NamedKey>& keys);
  Result<void> check_articles(const std::vector<NamedKey>& keys);
  Result<void> check_lengths(const std::vector<NamedKey>& keys);
  void check_engagement(const std::string& key, const redis::Reply& raw, const hot::Article& article);
  void check_views(const std::string& key, const redis::Reply& raw, const hot::Article& article);

  redis::BlockingRedis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
  const PartitionMover mover_;
  Findings& findings_;
  CheckTotals& totals_;
};

}  // namespace freshet::ctl
