// freshetctl top-contributors and freshetctl revert-visitor: who adds how much to the counters, and taking it back
// (core/hot/contributions.h).
#pragma once

#include <string>
#include <vector>

#include "core/hot/contributions.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

// Visitors by the names that the service counts them under (fcgi/http/identity.h).
struct VisitorSelector {
  std::vector<std::string> names;    // as `freshetctl top-contributors` prints them
  std::vector<std::string> readers;  // ids of the site's users
  // Who is known by neither a user's id nor a cookie; one needs the other.
  std::string address, agent;
  // All whose last event came from there: "192.0.2.0/24", an address of it, or as `freshetctl
  // visitors` prints it.
  std::string network;
};
// All but those of a network as names, in this order, each once. Those that are not given as such
// need identity.salt_file. Errors: kInvalid "bad_id", "bad_secret", "no_salt", "no_agent".
Result<std::vector<std::string>> resolve_visitors(const VisitorSelector& visitors, const Settings& settings);

struct TopContributorsOptions {
  VisitorSelector visitors;  // what these added to which articles; none: who added the most to all
  int top = 20;
  bool json = false;
};
struct RevertVisitorOptions {
  VisitorSelector visitors;
  bool dry_run = false;
  bool json = false;
};

struct VisitorTotals {
  std::string name;
  hot::VisitorOrigin origin;
  std::int64_t items = 0;
  hot::Contribution contribution;
};
// Those with the most page views and views, the first `top`; of that network, if one is named. A
// walk over all keys: O(keys), and serving goes on.
Result<std::vector<VisitorTotals>> top_contributors(redis::BlockingRedis& redis, const Settings& settings, int top,
                                                const std::string& network = {});
// As hot:added:{visitor} names it. Errors: kInvalid "no_salt", "bad_secret".
Result<std::string> resolve_network(const std::string& network, const Settings& settings);

// Errors: Redis'; kInvalid "contributions_disabled" when limits.contribution_ttl is 0.
Result<int> run_top_contributors(const TopContributorsOptions& options, const Target& target);
// 0 also when there was nothing to take back. Interrupted, it can be repeated.
Result<int> run_revert_visitor(const RevertVisitorOptions& options, const Target& target);

}  // namespace freshet::ctl
