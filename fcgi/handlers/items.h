// The item store: what the site knows of its articles. Internal routes.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> put_item(Call& call);
Task<Result<Response>> get_item(Call& call);
Task<Result<Response>> delete_item(Call& call);
Task<Result<Response>> post_items(Call& call);  // NDJSON, one item a line; a bad line never spoils the others

}  // namespace freshet::handlers
