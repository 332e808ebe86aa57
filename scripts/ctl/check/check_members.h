// Set checks of `freshetctl check`: ranks, buckets, tags and hidden items. Can sweep stale members.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/redis/blocking_redis.h"
#include "core/redis/keys.h"
#include "scripts/ctl/check/findings.h"

namespace freshet::ctl {

class MemberCheck {
 public:
  // All references must outlive this. `sweep`: remove stale members, each only if it is still stale
  // at that moment.
  MemberCheck(redis::BlockingRedis& redis, const Settings& settings, const redis::Keys& keys,
              Findings& findings, bool sweep)
      : redis_(redis), settings_(settings), keys_(keys), findings_(findings), sweep_(sweep) {}

  // hot:current:{hour}: totals are positive and within the index's bound; members have counters.
  Result<void> check_bucket(const std::string& key, std::string_view hour);
  // tag:{tag}: members have items.
  Result<void> check_tag(const std::string& key);
  // Ranks and hot:published: size limits, scores, members with counters.
  Result<void> check_ranks();
  // Compares the rank scores of these articles with their counters. Mismatches are queued for
  // recheck_rank_scores().
  Result<void> compare_rank_scores(const std::vector<std::string>& ids);
  // Rechecks after two seconds, by when a rank update must have been written.
  Result<void> recheck_rank_scores();
  // hot:current:index: every hour has its bucket.
  Result<void> check_bucket_index();
  // hot:hidden: no member is in a rank; expired entries are stale.
  Result<void> check_hidden();
  // hot:rank:next, and its counterparts of other models, exist only during a rebuild.
  Result<void> check_abandoned_rebuilds();

 private:
  // Key that must exist for a member to stay in its set.
  using RequiredKey = std::function<std::string(std::string_view)>;

  Result<void> check_scores(const std::string& key, const char* lowest);
  Result<void> check_members(const FindingKind& kind, const std::string& key, const char* remove,
                             const RequiredKey& required_key);
  Result<void> report_stale(const FindingKind& kind, const std::string& key, const char* remove,
                            const std::vector<std::string>& stale, const RequiredKey& required_key);
  Result<void> run_sweep(const FindingKind& kind, const redis::Pipeline& sweep);
  Result<void> check_top_score(const redis::PartitionKeys& partition);
  Result<void> report_wrong_scores(const std::string& id);
  Result<void> sweep_expired(const hot::Model& model, const std::string& id, std::int64_t version);
  Result<void> find_listed_hidden(const redis::PartitionKeys& partition,
                                  const std::vector<std::string>& page);
  Result<void> check_expired_hidden(const redis::PartitionKeys& partition);
  Result<void> sweep_rebuild(const std::string& rank, const std::string& placed);

  redis::BlockingRedis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
  Findings& findings_;
  const bool sweep_;
  std::vector<std::string> misplaced_;
};

}  // namespace freshet::ctl
