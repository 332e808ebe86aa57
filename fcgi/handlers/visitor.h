// Who is anonymous gets a name of their own: POST /api/visitor.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

// 204; with the visitor's cookie for whoever has none and is no reader who is known. Called where a
// visit begins, before its first report, so that a visitor counts as one. 0 RTT: nothing is stored.
Task<Result<Response>> post_visitor(Call& call);

}  // namespace freshet::handlers
