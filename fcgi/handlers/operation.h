// For operators: is it alive, is it ready, what is it doing. Internal routes.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> get_ping(Call& call);
Task<Result<Response>> get_status(Call& call);
Task<Result<Response>> get_live(Call& call);
Task<Result<Response>> get_ready(Call& call);  // 503 while this worker's Redis is away

}  // namespace freshet::handlers
