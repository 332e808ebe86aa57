#include "core/base/time.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <ctime>
#include <limits>
#include <optional>

#include "core/base/redis_clock.h"

namespace freshet {
namespace {

tl::unexpected<Error> bad_time(std::string_view member, std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_time", std::string(member), std::move(detail));
}

// Reads fixed-width fields from the left. After a mismatch ok() stays false.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  int digits(std::size_t count) {
    int value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if (!next_is_digit()) return fail();
      value = value * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    return value;
  }
  bool accept(char c) {
    if (!ok_ || rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail();
  }
  void skip_digits() {
    if (!next_is_digit()) fail();
    while (next_is_digit()) rest_.remove_prefix(1);
  }
  int fail() {
    ok_ = false;
    return 0;
  }
  bool next_is_digit() const { return ok_ && !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

// Parses "Z" or "+hh:mm". Returns seconds east of UTC.
seconds read_offset(Scanner& in) {
  if (in.accept('Z') || in.accept('z')) return seconds{0};
  const bool west = in.accept('-');
  if (!west) in.expect('+');
  const int hours = in.digits(2);
  in.expect(':');
  const int minutes = in.digits(2);
  if (hours > 23 || minutes > 59) in.fail();
  const auto offset = std::chrono::hours{hours} + std::chrono::minutes{minutes};
  return west ? -offset : offset;
}

std::optional<UnixSeconds> read_rfc3339(std::string_view text) {
  Scanner in(text);
  const int year = in.digits(4);
  in.expect('-');
  const int month = in.digits(2);
  in.expect('-');
  const int day = in.digits(2);
  if (!in.accept('T')) in.expect('t');
  const int hour = in.digits(2);
  in.expect(':');
  const int minute = in.digits(2);
  in.expect(':');
  const int second = in.digits(2);
  if (in.accept('.')) in.skip_digits();
  const seconds offset = read_offset(in);

  const std::chrono::year_month_day date{std::chrono::year{year},
                                         std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  // A leap second (60) has no Unix time of its own and maps to the following second.
  if (!in.at_end() || !date.ok() || hour > 23 || minute > 59 || second > 60) return std::nullopt;
  return std::chrono::sys_days{date} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
         seconds{second} - offset;
}

struct Civil {
  int year;
  unsigned month, day;
  long hour, minute, second;
};

Civil civil(UnixSeconds at) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{at - day};
  return {static_cast<int>(date.year()),
          static_cast<unsigned>(date.month()),
          static_cast<unsigned>(date.day()),
          time.hours().count(),
          time.minutes().count(),
          static_cast<long>(time.seconds().count())};
}

constexpr std::int64_t kUnknownOffset = std::numeric_limits<std::int64_t>::min();
std::atomic<std::int64_t> redis_clock_offset_us{kUnknownOffset};

}  // namespace

Result<UnixSeconds> parse_rfc3339(std::string_view text, std::string_view member) {
  const auto at = read_rfc3339(text);
  if (!at) return bad_time(member, "not an RFC 3339 time with an offset, such as 2026-03-06T12:00:00Z");
  return from_unix(at->time_since_epoch().count(), member);
}

Result<UnixSeconds> from_unix(std::int64_t value, std::string_view member) {
  if (value < 0 || value > kMaxUnixSeconds) return bad_time(member, "not between 1970 and 9999");
  return UnixSeconds{seconds{value}};
}

std::string to_rfc3339(UnixSeconds at) {
  const Civil c = civil(at);
  std::array<char, 64> text{};
  const int size = std::snprintf(text.data(), text.size(), "%04d-%02u-%02uT%02ld:%02ld:%02ldZ", c.year,
                                 c.month, c.day, c.hour, c.minute, c.second);
  return {text.data(), static_cast<std::size_t>(size)};
}

std::string utc_day(UnixSeconds at) {
  const Civil c = civil(at);
  std::array<char, 32> text{};
  const int size = std::snprintf(text.data(), text.size(), "%04d%02u%02u", c.year, c.month, c.day);
  return {text.data(), static_cast<std::size_t>(size)};
}

std::chrono::microseconds since_boot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::duration_cast<std::chrono::microseconds>(seconds(now.tv_sec) +
                                                               std::chrono::nanoseconds(now.tv_nsec));
}

void update_redis_clock(std::chrono::microseconds now, std::chrono::microseconds sent_at) {
  const auto min_offset = now - since_boot(), max_offset = now - sent_at;
  set_redis_clock_offset(
      std::clamp(redis_clock_offset().value_or(min_offset), min_offset, std::max(min_offset, max_offset)));
}

std::optional<std::chrono::microseconds> redis_clock_offset() {
  const std::int64_t offset = redis_clock_offset_us.load(std::memory_order_relaxed);
  if (offset == kUnknownOffset) return std::nullopt;
  return std::chrono::microseconds(offset);
}

void set_redis_clock_offset(std::chrono::microseconds offset) {
  redis_clock_offset_us.store(offset.count(), std::memory_order_relaxed);
}

milliseconds wall_ms() {
  if (const auto offset = redis_clock_offset())
    return std::chrono::floor<milliseconds>(since_boot() + *offset);
  return std::chrono::floor<milliseconds>(std::chrono::system_clock::now().time_since_epoch());
}

UnixSeconds wall_now() { return UnixSeconds(std::chrono::floor<seconds>(wall_ms())); }

}  // namespace freshet
