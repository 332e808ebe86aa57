// freshetctl top-contributors and freshetctl revert-visitor: list visitors' contributions to the
// counters and revert them (core/hot/contributions.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/hot/contributions.h"
#include "core/redis/blocking_redis.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

// Selects visitors by the names under which the service counts them (fcgi/http/identity.h).
struct VisitorSelector {
  std::vector<std::string> names;    // as `freshetctl top-contributors` prints them
  std::vector<std::string> readers;  // ids of the site's users
  // An anonymous visitor without a cookie; address and agent are required together.
  std::string address, agent;
  // All visitors whose last event came from this network: "192.0.2.0/24", "2001:db8::/48", an
  // address in it, or as `freshetctl top-contributors` prints it.
  std::string network;
};
// Resolves all but `network` to names, in this order, without duplicates. Anything but `names`
// needs identity.salt_file. Errors: kInvalid "bad_id", "bad_secret", "no_salt", "no_agent".
Result<std::vector<std::string>> resolve_visitors(const VisitorSelector& visitors, const Settings& settings);

struct TopContributorsOptions {
  VisitorSelector visitors;  // list these visitors' contributions per article; none: rank all visitors
  int top = 20;
  bool json = false;
};
struct RevertVisitorOptions {
  VisitorSelector visitors;
  bool dry_run = false;
  bool json = false;
};

struct VisitorTotals {
  std::string name;     // its network's, for anonymous visitors who were not recorded one by one
  std::string network;  // "": unknown, or the internal server
  std::int64_t items = 0;
  hot::Contribution contribution;
};
// Totals of all visitors whose last event came from one network.
struct NetworkTotals {
  std::string name;
  std::int64_t visitors = 0;
  hot::Contribution contribution;
};
struct TopContributors {
  std::vector<VisitorTotals> visitors;
  std::vector<NetworkTotals> networks;
};
// The `top` visitors and the `top` networks with the most page views and views, optionally of one
// network. Scans all keys while the service keeps running. O(keys).
Result<TopContributors> top_contributors(redis::BlockingRedis& redis, const Settings& settings, int top,
                                         const std::string& network = {});
// The network's pseudonym as hot:added:{visitor} stores it. Errors: kInvalid "no_salt",
// "bad_secret".
Result<std::string> resolve_network(const std::string& network, const Settings& settings);

// Errors: Redis'; kInvalid "contributions_disabled" when limits.contribution_ttl is 0.
Result<int> run_top_contributors(const TopContributorsOptions& options, const Target& target);
// Returns 0 also when there was nothing to revert. Can be repeated after an interruption.
Result<int> run_revert_visitor(const RevertVisitorOptions& options, const Target& target);

}  // namespace freshet::ctl
