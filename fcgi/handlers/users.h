// GET and DELETE /api/users/{id}: exports and erases what is stored about a reader. GET
// /api/jobs/{id}.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> get_user(Call& call);
Task<Result<Response>> delete_user(Call& call);
Task<Result<Response>> get_job(Call& call);

}  // namespace freshet::handlers
