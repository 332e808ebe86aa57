// What readers did with items, as the site's back end reports it. Internal.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

// One JSON object, or NDJSON: then every line has its own outcome. application/x-ndjson is always
// lines; any other type is lines when the body is not one JSON value and has more than one line. 1
// RTT for an object and for every 500 lines.
Task<Result<Response>> post_interactions(Call& call);

}  // namespace freshet::handlers
