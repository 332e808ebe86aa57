// Hot articles: `track`, `views`, lists and statistics. API.md has the table; each is one
// row of routes.cpp.
#pragma once

#include <optional>

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> post_track(Call& call);  // 1 RTT
Task<Result<Response>> post_views(Call& call);  // 1 RTT
Task<Result<Response>> get_hot(Call& call);
// The reply to a get_hot that had no time: this worker's last copy of its list, degraded. None when
// it has none.
std::optional<Response> last_hot(const Services& services,
                                 const Request& request);  // 0 RTT while this worker's snapshot is fresh
Task<Result<Response>> get_article_stats(Call& call);      // 1 RTT
Task<Result<Response>> get_stats(Call& call);              // 1 RTT

}  // namespace freshet::handlers
