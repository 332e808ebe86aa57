// The part of `freshetctl check` that looks at sets: ranks, buckets, tags, hidden items; and sweeps
// what is stale in them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/settings.h"
#include "core/redis/keys.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/check/findings.h"

namespace freshet::ctl {

class MemberCheck {
 public:
  // All must outlive this. `sweep`: what is stale is removed, each member only if it still is at
  // that moment.
  MemberCheck(redis::BlockingRedis& redis, const Settings& settings, const redis::Keys& keys, Findings& findings,
              bool sweep)
      : redis_(redis), settings_(settings), keys_(keys), findings_(findings), sweep_(sweep) {}

  // hot:current:{hour}: positive totals, none above the index; members with counters.
  Result<void> check_bucket(const std::string& key, std::string_view hour);
  // tag:{tag}: members with items.
  Result<void> check_tag(const std::string& key);
  // Ranks and hot:published: caps, scores, members with counters.
  Result<void> check_ranks();
  // The places of these articles are what their counters give; what is not is kept for
  // places_again().
  Result<void> compare_rank_scores(const std::vector<std::string>& ids);
  // Two seconds later: what was counted by then has its place.
  Result<void> recheck_rank_scores();
  // hot:current:index: hours with buckets.
  Result<void> check_bucket_index();
  // hot:hidden: in no rank; nothing that need not be remembered.
  Result<void> check_hidden();
  // hot:rank:next, and the like of other models, only while a rebuild runs.
  Result<void> check_abandoned_rebuilds();

 private:
  // The keys of which a member needs one.
  // The key that a member needs to stay.
  using RequiredKey = std::function<std::string(std::string_view)>;

  Result<void> check_scores(const std::string& key, const char* lowest);
  Result<void> check_members(const FindingKind& kind, const std::string& key, const char* remove, const RequiredKey& required_key);
  Result<void> report_stale(const FindingKind& kind, const std::string& key, const char* remove,
                             const std::vector<std::string>& stale, const RequiredKey& required_key);
  Result<void> run_sweep(const FindingKind& kind, const redis::Pipeline& sweep);
  Result<void> check_top_score(const redis::PartitionKeys& group);
  Result<void> report_wrong_scores(const std::string& id);
  Result<void> sweep_expired(const hot::Model& model, const std::string& id, std::int64_t version);
  Result<void> find_listed_hidden(const redis::PartitionKeys& group, const std::vector<std::string>& page);
  Result<void> check_expired_hidden(const redis::PartitionKeys& group);
  Result<void> sweep_rebuild(const std::string& rank, const std::string& placed);

  redis::BlockingRedis& redis_;
  const Settings& settings_;
  const redis::Keys& keys_;
  Findings& findings_;
  const bool sweep_;
  std::vector<std::string> misplaced_;
};

}  // namespace freshet::ctl
