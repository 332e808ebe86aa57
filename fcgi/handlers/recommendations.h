// GET /api/recommendations and GET /api/items/{id}/similar.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> get_recommendations(Call& call);
Task<Result<Response>> get_similar(Call& call);

}  // namespace freshet::handlers
