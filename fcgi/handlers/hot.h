// Hot articles: `track`, `views`, lists and statistics; described in API.md. Each handler is a row
// of routes.cpp.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> post_track(Call& call);  // 1 RTT
Task<Result<Response>> post_views(Call& call);  // 1 RTT
// 0 RTT while this worker's snapshot is fresh. At the deadline: its last copy, degraded.
Task<Result<Response>> get_hot(Call& call);
Task<Result<Response>> get_article_stats(Call& call);  // 1 RTT
Task<Result<Response>> get_stats(Call& call);          // 1 RTT

}  // namespace freshet::handlers
