// GET /api/recommendations, GET /api/items/{id}/similar, and GET /api/model for other hosts.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> get_recommendations(Call& call);
Task<Result<Response>> get_similar(Call& call);
// Lets nginx answer with the file (X-Accel-Redirect). Errors: kNotFound "no_model" without
// train.publish.
Task<Result<Response>> get_model(Call& call);

}  // namespace freshet::handlers
