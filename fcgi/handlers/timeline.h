// Timelines: a reader's pages, and pushes into them.
#pragma once

#include "fcgi/handlers/routes.h"

namespace freshet::handlers {

// Costs: see core/timeline/timelines.h.
Task<Result<Response>> get_timeline(Call& call);
// {items, customers}: 200 {pushed, duplicates, rejected?:[{item, code}]}, all written before the
// reply; also 200 with 0 pushed if every item is rejected. {items, followersOf}: 202 {job,
// rejected?}; if no item can be published, there is no job and the reply is 200 {pushed:0,
// duplicates:0, rejected}.
Task<Result<Response>> post_timeline(Call& call);
Task<Result<Response>> delete_timeline(Call& call);  // {removed: 0 or 1}

}  // namespace freshet::handlers
