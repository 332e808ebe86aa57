// Time in a replay: how far a log is moved, and when each of its events is due. Pure.
#pragma once

#include <chrono>
#include <limits>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::ctl {

inline constexpr double kMaxSpeed = std::numeric_limits<double>::infinity();

// A time on the command line: RFC 3339, unix seconds, or "now". Errors: kInvalid, "bad_time".
Result<UnixSeconds> parse_time(std::string_view text, UnixSeconds now);

// Seconds of the log played in one second: a number > 0 ("600" or "600x"), or "max" (as fast as the
// service answers). Errors: kInvalid, "bad_speed".
Result<double> parse_speed(std::string_view text);

// How long a log from `first` to `last` plays. 0 at kMaxSpeed.
std::chrono::nanoseconds playback_time(UnixSeconds first, UnixSeconds last, double speed);

// How far a log is moved so that its end falls on the moment at which the replay ends, `now` +
// playing time: then every item has its true age when the last event has been played. Before that
// items look older than they were, since hours of the log pass in seconds; no publish time is ever
// in the future for speeds ≥ 1.
seconds shift_to_now(UnixSeconds first, UnixSeconds last, UnixSeconds now, double speed);

// When an event is due, counted from the start of the replay. 0 at kMaxSpeed. REQUIRES: at ≥ first.
std::chrono::nanoseconds due_offset(UnixSeconds first, UnixSeconds at, double speed);

}  // namespace freshet::ctl
