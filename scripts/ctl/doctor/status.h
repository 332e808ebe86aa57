// freshetctl status: the pool's status page (with units, unless JSON), plus the kernel's listen
// queue. Asks the service's sockets directly, or with --base the internal server, such as another
// host's.
#pragma once

#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

struct StatusOptions {
  bool json = false;    // /status?json, plus "kernel listen queue" and "kernel listen queue len"
  bool health = false;  // one line instead, and status 1 unless the service is ready
  std::string socket;   // the pool's unix socket; empty: from the configuration
};

// Errors: the service does not answer.
Result<int> run_status(const StatusOptions& options, const Target& target);

// freshetctl rebuild-rank: rebuilds hot:rank from the counters with the configured half-life and
// weights.
struct RebuildRankOptions {
  bool json = false;
};
Result<int> run_rebuild_rank(const RebuildRankOptions& options, const Target& target);

}  // namespace freshet::ctl
