// GET /api/hot/preview: a hot list under other settings.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> get_preview(Call& call);

}  // namespace freshet::handlers
