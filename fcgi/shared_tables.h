// Memory that a host's workers share. The master creates it before it forks them.
#pragma once

#include "fcgi/handlers/last_lists.h"
#include "fcgi/http/rate_limiter.h"

namespace freshet {

struct SharedTables {
  http::LimitTables limits;
  handlers::LastLists last_lists;
};

}  // namespace freshet
