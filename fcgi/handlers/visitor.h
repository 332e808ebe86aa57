// POST /api/visitor: gives anonymous visitors an id of their own. GET /api/whoami (internal): tells
// callers what they are authenticated as.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

// 204, with the visitor cookie for a client that has none and is not signed in. Called at the start
// of a visit, before its first report, so that the visitor counts as one. 0 RTT: nothing is stored.
Task<Result<Response>> post_visitor(Call& call);
// Adds a cookie of a new visitor to the response. Errors: kInternal "no_random".
Result<void> add_visitor_cookie(const Call& call, Response& response);
Task<Result<Response>> get_whoami(Call& call);  // 0 RTT

}  // namespace freshet::handlers
