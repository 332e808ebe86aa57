// The pool's state as PHP-FPM shows it, from the scoreboard. Pure but for reading shared memory.
#pragma once

#include <string>

#include "core/base/settings.h"
#include "core/base/time.h"
#include "core/feed/ports_feed.h"
#include "fcgi/process/scoreboard.h"

namespace freshet::handlers {

// JSON with PHP-FPM's keys (pool, process manager, start time, …), then ours: requests, refused by reason,
// Redis, background writer, recorder ("off": recorder.enabled is false; "away": it has died and is about to
// be started again; starting, running; "waiting" with a reason and since when, in unix seconds); `full` adds
// one object a worker under "processes". `seen`: the seen-filter, null when Redis did not answer.
std::string status_json(Scoreboard& board, const Settings& settings, const feed::SeenStatus* seen,
                        UnixSeconds now, bool full);
// The same as `key: value` lines, PHP-FPM's default form.
std::string status_text(Scoreboard& board, const Settings& settings, const feed::SeenStatus* seen,
                        UnixSeconds now, bool full);

}  // namespace freshet::handlers
