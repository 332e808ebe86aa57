// Formats the status page for people: times, durations and sizes with units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/time.h"

namespace freshet::ctl {

// 12 s, 3 min 5 s, 4 h 12 min, 3 d 4 h.
std::string span_text(seconds span);
// 512 B, 12.3 MiB.
std::string size_text(std::uint64_t bytes);
// "1 error", "2 errors".
std::string count_text(std::int64_t count, std::string_view noun);
// Formats the text form of /status. Unknown lines are left unchanged.
std::string status_text(std::string_view page, UnixSeconds now);

}  // namespace freshet::ctl
