// Routes for interactions reported by the site's back end. Internal.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

// Accepts a JSON object, or NDJSON with an outcome for each line. application/x-ndjson is always
// read as lines; a body of another type is read as lines if it has several and is not a single JSON
// value. 1 RTT for an object and for every 500 lines.
Task<Result<Response>> post_interactions(Call& call);

}  // namespace freshet::handlers
