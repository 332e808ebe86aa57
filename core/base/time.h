// Times in requests and replies. Accepted: dates as sites write them, or integer Unix seconds.
// Written: Unix seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace freshet {

using std::chrono::milliseconds;
using std::chrono::seconds;
using UnixSeconds = std::chrono::sys_seconds;

// The accepted range is 1970-01-01T00:00:00Z to 9999-12-31T23:59:59Z, inclusive.
inline constexpr std::int64_t kMaxUnixSeconds = 253402300799;
inline constexpr std::int64_t kHourSeconds = 3600;

// Parses a date in the form of RFC 3339 ("2026-03-06T12:00:00Z", or with a space instead of the T)
// or RFC 822 ("Fri, 06 Mar 2026 12:00:00 GMT", as in RSS). Without a time it is midnight, without a
// zone UTC. Fractions are truncated. nullopt for "0000-00-00", with or without 00:00:00, which
// databases store for "no date". Error: kInvalid "bad_time".
Result<std::optional<UnixSeconds>> parse_date(std::string_view text, std::string_view member);
// Error: kInvalid "bad_time" if out of range.
Result<UnixSeconds> from_unix(std::int64_t value, std::string_view member);
inline std::int64_t unix_s(UnixSeconds at) { return at.time_since_epoch().count(); }
std::string to_rfc3339(UnixSeconds at);
// "20260306": the UTC day, as used in the keys of UV sets and daily filters.
std::string utc_day(UnixSeconds at);
// The current time by Redis' clock, once this process knows it (redis_clock.h); until then, and in
// command-line tools, by the host's clock.
UnixSeconds wall_now();

}  // namespace freshet
