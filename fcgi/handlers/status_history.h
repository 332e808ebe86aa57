// The "history" of ?json&history: five minutes as columns, one value per sample, oldest first; null
// where undefined.
#pragma once

#include <chrono>
#include <vector>

#include "core/base/json.h"
#include "fcgi/process/scoreboard.h"

namespace freshet::handlers {

// {"ms ago": [297000, …, 0], "requests": [12.3, …], …}. `now` on CLOCK_MONOTONIC.
void write_history(json::Writer& writer, const std::vector<PoolSample>& samples,
                   std::chrono::milliseconds now);

}  // namespace freshet::handlers
