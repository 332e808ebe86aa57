// Redis' clock, as this process knows it. Code that reads the time from Redis reports it here; from
// then on wall_now() is CLOCK_BOOTTIME plus an offset. So all hosts agree on the time, and setting
// a host's clock does not move it. Per process; thread-safe.
#pragma once

#include <chrono>
#include <optional>

#include "core/base/time.h"

namespace freshet {

std::chrono::microseconds since_boot();
// Records that Redis' clock read `now` (Unix time) at some moment between `sent_at` (a value of
// since_boot()) and this call. The offset changes only as far as this contradicts it, so a slow
// reply changes nothing.
void update_redis_clock(std::chrono::microseconds now, std::chrono::microseconds sent_at);
// Unix time minus CLOCK_BOOTTIME; the same for all processes of a machine. nullopt until it is
// known.
std::optional<std::chrono::microseconds> redis_clock_offset();
void set_redis_clock_offset(std::chrono::microseconds offset);
// wall_now() in milliseconds. Falls back to the host's clock until the offset is known.
milliseconds wall_ms();

}  // namespace freshet
