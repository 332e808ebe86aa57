// Hot articles: `track` (seed 001), `views` (seed 003), lists and statistics. See api.md's table; each is one
// row of routes.cpp.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> post_track(Call& call);         // 1 RTT
Task<Result<Response>> post_views(Call& call);         // 1 RTT
Task<Result<Response>> get_hot(Call& call);            // 0 RTT while this worker's snapshot is fresh
Task<Result<Response>> get_article_stats(Call& call);  // 1 RTT
Task<Result<Response>> get_stats(Call& call);          // 1 RTT

}  // namespace freshet::handlers
