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

// Reads fields from the left. After a mismatch ok() stays false.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  struct Number {
    int value = 0;
    std::size_t digits = 0;
  };
  // Reads as many digits as follow, up to `max`. Fewer than `min` are a mismatch.
  Number number(std::size_t min, std::size_t max) {
    Number out;
    for (; out.digits < max && next_is_digit(); ++out.digits) {
      out.value = out.value * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    if (out.digits < min) fail();
    return out;
  }
  int digits(std::size_t count) { return number(count, count).value; }
  // The letters that follow, in lower case; may be none.
  std::string word() {
    std::string out;
    for (; ok_ && !rest_.empty() && is_letter(rest_.front()); rest_.remove_prefix(1))
      out += static_cast<char>(rest_.front() | 0x20);
    return out;
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
  void skip_spaces() {
    while (accept(' ')) continue;
  }
  void fail() { ok_ = false; }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
  bool next_is_digit() const { return ok_ && !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; }

  std::string_view rest_;
  bool ok_ = true;
};

struct Zone {
  std::string_view name;
  int hours;  // east of UTC
};
// Those of RFC 822, except the military ones, which writers used with either sign.
constexpr std::array kZones{Zone{"z", 0},    Zone{"ut", 0},   Zone{"utc", 0},  Zone{"gmt", 0},
                            Zone{"est", -5}, Zone{"edt", -4}, Zone{"cst", -6}, Zone{"cdt", -5},
                            Zone{"mst", -7}, Zone{"mdt", -6}, Zone{"pst", -8}, Zone{"pdt", -7}};
constexpr std::array<std::string_view, 7> kDays{"mon", "tue", "wed", "thu", "fri", "sat", "sun"};
constexpr std::array<std::string_view, 12> kMonths{"jan", "feb", "mar", "apr", "may", "jun",
                                                   "jul", "aug", "sep", "oct", "nov", "dec"};

// Parses "Z", a name, "+hh:mm" or "+hhmm". Returns seconds east of UTC; 0 if there is no zone.
seconds read_zone(Scanner& in) {
  if (in.at_end()) return seconds{0};
  in.skip_spaces();
  if (const std::string name = in.word(); !name.empty()) {
    const auto* const zone = std::ranges::find(kZones, name, &Zone::name);
    if (zone != kZones.end()) return std::chrono::hours{zone->hours};
    in.fail();
  }
  const bool west = in.accept('-');
  if (!west) in.expect('+');
  const int hours = in.digits(2);
  in.accept(':');
  const int minutes = in.digits(2);
  if (hours > 23 || minutes > 59) in.fail();
  const auto offset = std::chrono::hours{hours} + std::chrono::minutes{minutes};
  return west ? -offset : offset;
}

// Parses "hh:mm" or "hh:mm:ss", with or without a fraction. Returns seconds since midnight.
seconds read_clock(Scanner& in) {
  const int hour = in.digits(2);
  in.expect(':');
  const int minute = in.digits(2);
  int second = 0;
  if (in.accept(':')) {
    second = in.digits(2);
    if (in.accept('.')) in.skip_digits();
  }
  // A leap second (60) has no Unix time of its own and maps to the following second.
  if (hour > 23 || minute > 59 || second > 60) in.fail();
  return std::chrono::hours{hour} + std::chrono::minutes{minute} + seconds{second};
}

struct WrittenDate {
  int year = 0, month = 0, day = 0;
  seconds clock{0}, offset{0};
  bool is_zero() const { return year == 0 && month == 0 && day == 0 && clock == seconds{0}; }
};

WrittenDate read_rfc3339(Scanner& in) {
  WrittenDate out;
  out.year = in.digits(4);
  in.expect('-');
  out.month = in.digits(2);
  in.expect('-');
  out.day = in.digits(2);
  if (in.at_end()) return out;
  if (!in.accept('T') && !in.accept('t')) in.expect(' ');
  out.clock = read_clock(in);
  out.offset = read_zone(in);
  return out;
}

WrittenDate read_rfc822(Scanner& in) {
  WrittenDate out;
  if (const std::string name = in.word(); !name.empty()) {
    if (std::ranges::find(kDays, name) == kDays.end()) in.fail();
    in.accept(',');
    in.skip_spaces();
  }
  out.day = in.number(1, 2).value;
  in.skip_spaces();
  out.month = static_cast<int>(std::ranges::find(kMonths, in.word()) - kMonths.begin()) + 1;
  in.skip_spaces();
  const Scanner::Number year = in.number(2, 4);
  // RFC 2822: two digits are 1950 to 2049, three are years since 1900.
  out.year = year.value + (year.digits == 4 ? 0 : year.digits == 2 && year.value < 50 ? 2000 : 1900);
  if (in.at_end()) return out;
  in.expect(' ');
  in.skip_spaces();
  out.clock = read_clock(in);
  out.offset = read_zone(in);
  return out;
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

Result<std::optional<UnixSeconds>> parse_date(std::string_view text, std::string_view member) {
  Scanner in(text);
  const WrittenDate read = text.size() > 4 && text[4] == '-' ? read_rfc3339(in) : read_rfc822(in);
  const std::chrono::year_month_day date{std::chrono::year{read.year},
                                         std::chrono::month{static_cast<unsigned>(read.month)},
                                         std::chrono::day{static_cast<unsigned>(read.day)}};
  if (!in.at_end() || !(date.ok() || read.is_zero())) {
    return bad_time(member,
                    "not a date such as 2026-03-06T12:00:00Z, 2026-03-06 or Fri, 06 Mar 2026 12:00:00 GMT");
  }
  if (read.is_zero()) return std::nullopt;
  const UnixSeconds at = std::chrono::sys_days{date} + read.clock - read.offset;
  return from_unix(unix_s(at), member).map([](UnixSeconds time) { return std::optional(time); });
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
