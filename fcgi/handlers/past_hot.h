// GET /api/hot?at= for a moment in the past, on the internal server.
#pragma once

#include "fcgi/handlers/application.h"
#include "fcgi/handlers/parse_hot.h"

namespace freshet::handlers {

// The list as the recorder's counts of views know it, without items that are hidden now. A tag
// selects items that have it now. Examines the best kMaxPastItems items. 1 RTT per 100 of them.
// REQUIRES: request.is_past. Errors: those of tuning::past_list(); kUnavailable "past_lists_busy"
// while this worker computes two others.
Task<Result<Response>> get_past_hot(Call& call, const HotListRequest& request);

inline constexpr std::size_t kMaxPastItems = 5000;

}  // namespace freshet::handlers
