// Routes for a reader's recently viewed items.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> post_history(Call& call);        // 1 RTT
Task<Result<Response>> get_history(Call& call);         // 1 RTT
Task<Result<Response>> delete_history(Call& call);      // 1 RTT
Task<Result<Response>> post_history_merge(Call& call);  // 1 RTT; internal: called at login

}  // namespace freshet::handlers
