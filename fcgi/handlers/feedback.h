// "Not interested": a reader asks not to see an item again, and to see fewer similar ones.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> post_feedback(Call& call);  // 1 RTT
// 1 RTT; undoes it; arguments in the query or a JSON body
Task<Result<Response>> delete_feedback(Call& call);

}  // namespace freshet::handlers
