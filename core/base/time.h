// Times on the wire: in, RFC 3339 with an offset or integer unix seconds; out, unix seconds.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace freshet {

using std::chrono::milliseconds;
using std::chrono::seconds;
using UnixSeconds = std::chrono::sys_seconds;

// The range accepted anywhere: 1970-01-01T00:00:00Z up to and including 9999-12-31T23:59:59Z.
inline constexpr std::int64_t kMaxUnixSeconds = 253402300799;
inline constexpr std::int64_t kHourSeconds = 3600;

// Parses RFC 3339 ("2026-03-06T12:00:00Z", fractions truncated, offset required). Error: kInvalid,
// "bad_time".
Result<UnixSeconds> parse_rfc3339(std::string_view text, std::string_view member);
// Integer unix seconds in range. Error: kInvalid, "bad_time".
Result<UnixSeconds> from_unix(std::int64_t value, std::string_view member);
inline std::int64_t unix_s(UnixSeconds at) { return at.time_since_epoch().count(); }
std::string to_rfc3339(UnixSeconds at);
// "20260306", the UTC day that UV sets and daily filters are keyed by.
std::string utc_day(UnixSeconds at);
// Now by Redis' clock, as far as this process has heard of it (agreed_clock.h); until then, and in
// tools, by this host's.
UnixSeconds wall_now();

}  // namespace freshet
