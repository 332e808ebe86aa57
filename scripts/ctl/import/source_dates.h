// Dates of feeds, exports and front matter.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/time.h"

namespace freshet::ctl {

// Reads what parse_date() reads, and also Unix seconds or milliseconds, 2026/3/6, one-digit hours,
// whole names of days and months, and more names of zones. Without a zone the date is UTC. nullopt
// if it is empty, 0000-00-00, not a date, or before 1970.
std::optional<UnixSeconds> parse_source_date(std::string_view text);

}  // namespace freshet::ctl
