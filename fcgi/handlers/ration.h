// What a request costs, from limits.*: through the public server, for clients that are not on
// clients.allow_file.
#pragma once

#include <cmath>

#include "core/feed/ports_ration.h"
#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

// `endpoint`: a literal, the part of the bucket's name. `who`: a reader's id or Who::counted_as.
inline feed::Ration ration(const Call& call, const Bucket& bucket, std::string_view endpoint,
                           std::string_view who) {
  if (call.request.zone != Zone::kPublic || call.exempt || bucket.rate <= 0) return {};
  const auto interval = static_cast<std::int64_t>(std::ceil(1e6 / bucket.rate));
  return {endpoint, std::string(who), interval, interval * (bucket.burst - 1)};
}

}  // namespace freshet::handlers
