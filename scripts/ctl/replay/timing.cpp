#include "scripts/ctl/replay/timing.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace freshet::ctl {
namespace {

// About 100 years. Avoids an overflow of the clock for events that are never reached.
constexpr double kLongestPlaySeconds = 3.2e9;

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<UnixSeconds> parse_time(std::string_view text, UnixSeconds now) {
  if (text == "now") return now;
  std::int64_t value = 0;
  if (parse_number(text, value)) return from_unix(value, "time");
  FRESHET_TRY(at, parse_date(text, "time"));
  if (!*at) return fail(ErrorCode::kInvalid, "bad_time", "time", "is a zero date");
  return **at;
}

Result<double> parse_speed(std::string_view text) {
  if (text == "max") return kMaxSpeed;
  if (text.ends_with('x')) text.remove_suffix(1);
  double value = 0;
  if (!parse_number(text, value) || !std::isfinite(value) || value <= 0) {
    return fail(ErrorCode::kInvalid, "bad_speed", "speed", "must be a number above 0, or max");
  }
  return value;
}

std::chrono::nanoseconds due_offset(UnixSeconds first, UnixSeconds at, double speed) {
  const double span = static_cast<double>((at - first).count()) / speed;
  return std::chrono::nanoseconds(std::llround(std::min(span, kLongestPlaySeconds) * 1e9));
}

std::chrono::nanoseconds playback_time(UnixSeconds first, UnixSeconds last, double speed) {
  return due_offset(first, last, speed);
}

seconds shift_to_now(UnixSeconds first, UnixSeconds last, UnixSeconds now, double speed) {
  return now - last + std::chrono::floor<seconds>(playback_time(first, last, speed));
}

}  // namespace freshet::ctl
