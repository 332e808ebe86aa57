// When a worker asks to be replaced: pm.max_requests and pm.max_rss. Pure but for resident_bytes().
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/config/settings.h"
#include "fcgi/process/respawn.h"

namespace freshet {

class RecyclePolicy {
 public:
  // `jitter`, 0.9 to 1.1, is a factor on both limits: each worker draws its own, or all would go at
  // once.
  RecyclePolicy(const PoolSettings& pool, double jitter, SteadyTime started);

  // So many replies were finished and that is enough.
  bool exceeds_max_requests(std::uint64_t finished) const { return finished >= max_requests_; }
  // This much is resident and that is too much. False for the first ten seconds of a worker: a
  // limit that is below what every worker needs costs a replacement each ten seconds, not a storm
  // of them.
  bool exceeds_max_rss(std::size_t rss_bytes, SteadyTime now) const;

 private:
  std::uint64_t max_requests_;
  std::size_t max_rss_bytes_;
  SteadyTime memory_check_from_;
};

// A number from 0.9 to 1.1.
double random_jitter();

// Resident memory of this process, what it shares with others included, as `ps` shows it; 0 when
// /proc cannot be read. About 10 microseconds.
std::size_t resident_bytes();

}  // namespace freshet
