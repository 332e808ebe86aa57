// GET /api/recommendations, GET /api/items/{id}/similar, and GET /api/model for other hosts.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> get_recommendations(Call& call);
Task<Result<Response>> get_similar(Call& call);
// Lets nginx send the file (X-Accel-Redirect). Error: kNotFound "no_model" unless train.publish is
// set.
Task<Result<Response>> get_model(Call& call);

}  // namespace freshet::handlers
