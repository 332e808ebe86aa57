// Which readers follow which authors.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

Task<Result<Response>> put_follow(Call& call);     // 1 RTT; internal
Task<Result<Response>> delete_follow(Call& call);  // 1 RTT; internal; arguments in the query or a JSON body
Task<Result<Response>> get_follows(Call& call);    // 1 RTT; {items:[authors], degraded?}

}  // namespace freshet::handlers
