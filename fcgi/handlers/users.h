// GET and DELETE /api/users/{id}, GET /api/visitor/export and DELETE /api/visitor: export and erase
// what is stored about a reader, or about the visitor of the cookie. GET /api/jobs/{id}.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> get_user(Call& call);
Task<Result<Response>> delete_user(Call& call);
// Errors: kInvalid "no_visitor" without a valid visitor cookie.
Task<Result<Response>> get_visitor_export(Call& call);
Task<Result<Response>> delete_visitor(Call& call);  // 204, and removes the cookie
Task<Result<Response>> get_job(Call& call);

}  // namespace freshet::handlers
