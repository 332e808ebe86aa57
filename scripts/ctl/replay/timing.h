// Timing of a replay: the shift of a log and the due times of its events. Pure.
#pragma once

#include <chrono>
#include <limits>
#include <string_view>

#include "core/base/result.h"
#include "core/base/time.h"

namespace freshet::ctl {

inline constexpr double kMaxSpeed = std::numeric_limits<double>::infinity();

// Parses a time on the command line: a date (parse_date), Unix seconds or "now". Errors: kInvalid
// "bad_time".
Result<UnixSeconds> parse_time(std::string_view text, UnixSeconds now);

// Parses a speed, seconds of the log per second: a number > 0 ("600" or "600x"), or "max" (as fast
// as the service answers). Errors: kInvalid "bad_speed".
Result<double> parse_speed(std::string_view text);

// Duration of the playback of a log from `first` to `last`. 0 at kMaxSpeed.
std::chrono::nanoseconds playback_time(UnixSeconds first, UnixSeconds last, double speed);

// Shift that moves the log's end to the end of the replay, `now` + playback time: every item has
// its true age when the last event has been played. Until then items look older, since hours of the
// log pass in seconds. At speeds ≥ 1 no publish time is ever in the future.
seconds shift_to_now(UnixSeconds first, UnixSeconds last, UnixSeconds now, double speed);

// Due time of an event, relative to the start of the replay. 0 at kMaxSpeed. REQUIRES: at ≥ first.
std::chrono::nanoseconds due_offset(UnixSeconds first, UnixSeconds at, double speed);

}  // namespace freshet::ctl
