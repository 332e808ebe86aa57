// "Not interested": a reader's word that an item, and a little its like, should not come again.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> post_feedback(Call& call);    // 1 RTT
Task<Result<Response>> delete_feedback(Call& call);  // 1 RTT; takes it back: by query or by a JSON body

}  // namespace freshet::handlers
