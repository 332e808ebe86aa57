#include "scripts/ctl/doctor/status_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/redis/fields.h"

namespace freshet::ctl {
namespace {

enum class Unit : std::uint8_t { kSeconds, kMilliseconds, kMicroseconds, kBytes, kTimestamp };

struct NamedUnit {
  std::string_view name;
  Unit unit;
};
// Units of rows whose name does not end in one.
constexpr std::array kUnitsByName{NamedUnit{"start since", Unit::kSeconds},
                                  NamedUnit{"memory peak", Unit::kBytes},
                                  NamedUnit{"model trained at", Unit::kTimestamp},
                                  NamedUnit{"hot list tuned at", Unit::kTimestamp},
                                  NamedUnit{"recorder waiting since", Unit::kTimestamp},
                                  NamedUnit{"recorder last commit", Unit::kTimestamp},
                                  NamedUnit{"sampled at", Unit::kTimestamp},
                                  NamedUnit{"redis lost since", Unit::kTimestamp},
                                  NamedUnit{"last reload", Unit::kTimestamp}};
constexpr std::array kUnitsBySuffix{NamedUnit{" ms", Unit::kMilliseconds},
                                    NamedUnit{" us", Unit::kMicroseconds}, NamedUnit{" bytes", Unit::kBytes}};

bool is_subsecond(Unit unit) { return unit == Unit::kMilliseconds || unit == Unit::kMicroseconds; }

std::optional<Unit> unit_of(std::string_view name) {
  for (const NamedUnit& each : kUnitsByName)
    if (each.name == name) return each.unit;
  for (const NamedUnit& each : kUnitsBySuffix)
    if (name.ends_with(each.name)) return each.unit;
  return std::nullopt;
}

std::string subsecond_text(std::chrono::microseconds span) {
  const double us = static_cast<double>(span.count());
  if (us == 0) return "0 s";
  if (us < 1000) return fmt::format("{} us", span.count());
  if (us < 1'000'000) return fmt::format("{:.1f} ms", us / 1000);
  if (us < 60'000'000) return fmt::format("{:.1f} s", us / 1'000'000);
  return span_text(std::chrono::duration_cast<seconds>(span));
}

std::string timestamp_text(std::int64_t at, UnixSeconds now) {
  if (at == 0) return "-";
  const UnixSeconds then{seconds(at)};
  return fmt::format("{} ({} ago)", to_rfc3339(then), span_text(std::max(seconds(0), now - then)));
}

std::string value_text(std::int64_t value, Unit unit, UnixSeconds now) {
  switch (unit) {
    case Unit::kSeconds:
      return span_text(seconds(value));
    case Unit::kMilliseconds:
      return subsecond_text(milliseconds(value));
    case Unit::kMicroseconds:
      return subsecond_text(std::chrono::microseconds(value));
    case Unit::kBytes:
      return size_text(static_cast<std::uint64_t>(value));
    case Unit::kTimestamp:
      return timestamp_text(value, now);
  }
  return {};
}

std::string line_text(std::string_view line, UnixSeconds now) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos) return std::string(line);
  const std::size_t from = std::min(line.find_first_not_of(' ', colon + 1), line.size());
  const auto unit = unit_of(line.substr(0, colon));
  const auto value = redis::parse<std::int64_t>(line.substr(from));
  if (!unit || !value || *value < 0) return std::string(line);
  std::string name(line.substr(0, from));
  if (is_subsecond(*unit)) {  // the unit moves after the value
    name.erase(colon - 3, 3);
    name.append(3, ' ');
  }
  return name + value_text(*value, *unit, now);
}

}  // namespace

std::string span_text(seconds span) {
  const std::int64_t s = span.count();
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {} s", s / 60, s % 60);
  if (s < 86400) return fmt::format("{} h {} min", s / 3600, s / 60 % 60);
  return fmt::format("{} d {} h", s / 86400, s / 3600 % 24);
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr std::array<std::string_view, 4> kNames{"KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes) / 1024;
  std::size_t name = 0;
  for (; size >= 1023.95 && name + 1 < kNames.size(); ++name) size /= 1024;
  return fmt::format("{:.1f} {}", size, kNames.at(name));
}

std::string count_text(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string status_text(std::string_view page, UnixSeconds now) {
  std::string out;
  while (!page.empty()) {
    const std::size_t end = std::min(page.find('\n'), page.size());
    out.append(line_text(page.substr(0, end), now)).append("\n");
    page.remove_prefix(std::min(end + 1, page.size()));
  }
  return out;
}

}  // namespace freshet::ctl
