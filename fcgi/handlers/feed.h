// The smart feed: POST /api/feed.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> post_feed(Call& call);

}  // namespace freshet::handlers
