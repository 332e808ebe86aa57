// The item store: what the site publishes. Internal routes.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> put_item(Call& call);
Task<Result<Response>> get_item(Call& call);
Task<Result<Response>> delete_item(Call& call);
// NDJSON, one item per line; an invalid line does not affect the others
Task<Result<Response>> post_items(Call& call);

}  // namespace freshet::handlers
