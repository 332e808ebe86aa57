// freshetctl status: what the pool says of itself, with units unless as JSON, and what only the
// kernel knows.
#pragma once

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct StatusOptions {
  bool json = false;   // /status?json, with "kernel listen queue" and "kernel listen queue len"
  std::string socket;  // the pool's unix socket; empty: as the configuration says
};

// Errors: the service does not answer.
Result<int> run_status(const StatusOptions& options, const Target& target);

// freshetctl rebuild-rank: hot:rank anew from the counters, with the configuration's half-life and
// weights.
struct RebuildRankOptions {
  bool json = false;
};
Result<int> run_rebuild_rank(const RebuildRankOptions& options, const Target& target);

}  // namespace freshet::ctl
