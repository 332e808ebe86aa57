// Timeline checks of `freshetctl check`: timelines, outboxes and follows
// (core/timeline/parts/timeline.lua).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"
#include "scripts/ctl/check/check_keys.h"
#include "scripts/ctl/check/findings.h"

namespace freshet::ctl {

class TimelineCheck {
 public:
  // All must outlive this.
  TimelineCheck(redis::BlockingRedis& redis, const Settings& settings, const redis::Keys& keys,
                Findings& findings)
      : redis_(redis), settings_(settings), keys_(keys), findings_(findings) {}
  // At most kPageSize keys. 1 RTT, and 2 for every page of members of a follow key.
  Result<void> check(const std::vector<NamedKey>& keys);

 private:
  struct TimelineKey {
    std::string key;
    std::optional<std::int64_t> max_ids;  // nullopt: no limit
  };
  void evaluate(const TimelineKey& timeline, const redis::Reply& summary);
  Result<void> check_follows(const std::string& key, std::string_view owner, bool owner_is_reader);
  Result<void> find_one_sided(const std::string& key, std::string_view owner, bool owner_is_reader,
                              const std::vector<std::string>& members);

  redis::BlockingRedis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
  Findings& findings_;
};

}  // namespace freshet::ctl
