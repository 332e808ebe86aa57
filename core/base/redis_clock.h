// The time that all hosts agree on. Whoever hears it from Redis says so here; from then on
// wall_now() goes by it and by CLOCK_BOOTTIME. So it is the same on every host, and does not move
// when somebody sets this host's clock. Of one process; any thread.
#pragma once

#include <chrono>
#include <optional>

#include "core/base/time.h"

namespace freshet {

// CLOCK_BOOTTIME.
std::chrono::microseconds since_boot();
// It was `now` (Unix time) at some moment between `asked_at` (of since_boot()) and this one. What
// is agreed on moves only as far as that proves it wrong: a slow reply moves nothing.
void update_redis_clock(std::chrono::microseconds now, std::chrono::microseconds sent_at);
// Unix time less CLOCK_BOOTTIME, the same for all processes of a machine. nullopt: nobody said yet.
std::optional<std::chrono::microseconds> redis_clock_offset();
void set_redis_clock_offset(std::chrono::microseconds offset);
// As wall_now(): by the host's own clock until it is agreed on.
milliseconds wall_ms();

}  // namespace freshet
