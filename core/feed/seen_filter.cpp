#include "core/feed/seen_filter.h"

#include "core/feed/seen_fingerprints.h"
#include "core/feed/seen_redisbloom.h"

namespace freshet::feed {

std::unique_ptr<SeenFilter> make_seen_filter(const Settings& settings, const redis::Keys& keys) {
  if (settings.seen.filter == "redisbloom") return std::make_unique<SeenRedisBloom>(settings.seen, keys);
  return std::make_unique<SeenFingerprints>(settings.seen, keys);
}

}  // namespace freshet::feed
