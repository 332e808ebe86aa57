// When a worker asks to be replaced: pm.max_requests and pm.max_rss. Pure except for
// resident_bytes().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/config/settings.h"
#include "fcgi/process/respawn.h"

namespace freshet {

class RecyclePolicy {
 public:
  // `jitter`, 0.9 to 1.1, scales both limits. Each worker draws its own, so that they are not all
  // replaced at once.
  RecyclePolicy(const PoolSettings& pool, double jitter, SteadyTime started);

  bool exceeds_max_requests(std::uint64_t finished) const { return finished >= max_requests_; }
  // Always false in a worker's first ten seconds: a limit below what every worker needs then costs
  // one replacement every ten seconds instead of a restart loop.
  bool exceeds_max_rss(std::size_t rss_bytes, SteadyTime now) const;

 private:
  std::uint64_t max_requests_;
  std::size_t max_rss_bytes_;
  SteadyTime memory_check_from_;
};

// Random factor from 0.9 to 1.1.
double random_jitter();

// Resident memory of this process, shared pages included, as `ps` shows it. 0 if /proc cannot be
// read. Takes about 10 µs.
std::size_t resident_bytes();

}  // namespace freshet
