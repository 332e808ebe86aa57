// The part of `freshetctl check` that looks at one key after the other: its name, type and TTL, and
// the counters of items.
#pragma once

#include <string>
#include <vector>

#include "core/config/settings.h"
#include "core/hot/article.h"
#include "core/redis/keys.h"
#include "core/redis/sync_redis.h"
#include "scripts/ctl/check/check.h"
#include "scripts/ctl/check/findings.h"

namespace freshet::ctl {

struct NamedKey {
  std::string key;
  std::string plain;  // without prefix and braces
};

class KeyCheck {
 public:
  // All must outlive this.
  KeyCheck(redis::BlockingRedis& redis, const Settings& settings, const redis::Keys& keys, Findings& findings,
           Sums& sums)
      : redis_(redis), settings_(settings), keys_(keys), findings_(findings), sums_(sums) {}
  // At most kPage keys, each given once. 4 RTT.
  Result<void> look_at(const std::vector<NamedKey>& ours);

 private:
  Result<void> types_and_ttls(const std::vector<NamedKey>& ours);
  Result<void> items(const std::vector<NamedKey>& ours);
  Result<void> articles(const std::vector<NamedKey>& ours);
  Result<void> feeds(const std::vector<NamedKey>& ours);
  void engagement(const std::string& key, const redis::Reply& raw, const hot::Article& article);
  void views(const std::string& key, const redis::Reply& raw, const hot::Article& article);

  redis::BlockingRedis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
  Findings& findings_;
  Sums& sums_;
};

}  // namespace freshet::ctl
