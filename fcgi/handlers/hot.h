// Hot articles: `track`, `views`, lists and statistics; described in API.md. Each handler is a row
// of routes.cpp.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> post_track(Call& call);  // 1 RTT
Task<Result<Response>> post_views(Call& call);  // 1 RTT
// Counts a page view for a page without JavaScript. Ignores who the sender is. HEAD and a prefetch
// (Sec-Purpose) count nothing. 1 RTT.
Task<Result<Response>> get_pixel(Call& call);
// 0 RTT while this worker's snapshot is fresh. At the deadline: its last copy, degraded.
Task<Result<Response>> get_hot(Call& call);
Task<Result<Response>> get_article_stats(Call& call);  // 1 RTT
Task<Result<Response>> get_stats(Call& call);          // 1 RTT

}  // namespace freshet::handlers
