// Timelines: a reader's pages, and what is pushed into them.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

// Costs of all: core/timeline/timelines.h.
Task<Result<Response>> get_timeline(Call& call);
// {items, customers}: 200 {pushed, duplicates, rejected?:[{item, code}]}, all written before the
// reply; when no item can be pushed that is 200 too, with 0 pushed and all rejected. {items,
// followersOf}: 202 {job, rejected?}, and when no item can be published 200 {pushed:0,
// duplicates:0, rejected}, for there is no job.
Task<Result<Response>> post_timeline(Call& call);
Task<Result<Response>> delete_timeline(Call& call);  // {removed: 0 or 1}

}  // namespace freshet::handlers
