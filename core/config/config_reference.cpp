#include "core/config/config_reference.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "core/config/config_directives.h"

namespace freshet {
namespace {

using config::Directive;
using config::Unit;

struct Suffix {
  std::string_view text;
  double factor;
};
constexpr std::array kSeconds{Suffix{"d", 86400}, Suffix{"h", 3600}, Suffix{"m", 60}, Suffix{"s", 1}};
constexpr std::array kMilliseconds{Suffix{"d", 86400e3}, Suffix{"h", 3600e3}, Suffix{"m", 60e3},
                                   Suffix{"s", 1000}, Suffix{"ms", 1}};
constexpr std::array kBytes{Suffix{"G", 1 << 30}, Suffix{"M", 1 << 20}, Suffix{"K", 1 << 10}};

// Prints whole numbers without an exponent, up to the 15 digits that a double holds exactly.
std::string number_text(double value) {
  std::array<char, 32> text{};
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  const auto end = whole ? std::to_chars(text.begin(), text.end(), static_cast<std::int64_t>(value)).ptr
                         : std::to_chars(text.begin(), text.end(), value).ptr;
  return {text.begin(), end};
}

// Uses the largest suffix that divides the value.
std::string format_with_suffix(double value, std::span<const Suffix> suffixes) {
  for (const Suffix& suffix : suffixes)
    if (value != 0 && std::fmod(value, suffix.factor) == 0)
      return number_text(value / suffix.factor) + std::string(suffix.text);
  return number_text(value);
}

std::string range_text(const Directive& row, std::span<const Suffix> suffixes = {}) {
  return format_with_suffix(row.range.low, suffixes) + " to " + format_with_suffix(row.range.high, suffixes);
}

std::string octal(double value) {
  std::array<char, 16> text{};
  const auto end = std::to_chars(text.begin(), text.end(), static_cast<int>(value), 8).ptr;
  return (value == 0 ? "" : "0") + std::string(text.begin(), end);
}

std::string choices_text(std::string_view text) {
  std::string out = "one of \"";
  for (const char c : text) {
    if (c == '|')
      out += "\", \"";
    else
      out += c;
  }
  return out + "\"";
}

// The unit decides first, because an integer field may hold a time or a size.
template <typename T>
std::string describe_values(const Directive& row) {
  if (!row.choices.empty()) return choices_text(row.choices);
  if (row.unit == Unit::kBytes) return "a size in bytes, " + range_text(row, kBytes);
  if (row.unit == Unit::kMode) return "permissions, " + octal(row.range.low) + " to " + octal(row.range.high);
  if (std::is_same_v<T, milliseconds> || row.unit == Unit::kMilliseconds)
    return "a time in milliseconds, " + range_text(row, kMilliseconds);
  if (std::is_same_v<T, seconds> || row.unit == Unit::kSeconds)
    return "a time in seconds, " + range_text(row, kSeconds);
  if (std::is_same_v<T, bool>) return "true or false";
  if (std::is_same_v<T, std::string>) return "a string";
  if (std::is_same_v<T, double>) return "a number, " + range_text(row);
  if (std::is_integral_v<T>) return "an integer, " + range_text(row);
  if constexpr (requires { typename T::value_type; }) {
    if (std::is_same_v<T, std::optional<typename T::value_type>>)
      return describe_values<typename T::value_type>(row) + ", or \"auto\"";
  }
  return std::is_same_v<T, std::vector<std::string>> ? "an array of strings" : "a table of strings";
}

}  // namespace

std::vector<DirectiveReference> directive_references() {
  Settings defaults;
  std::vector<DirectiveReference> out;
  for (const Directive& row : config::directives())
    out.push_back(
        {row.name, row.description, config::format(row, defaults),
         std::visit([&](auto* field) { return describe_values<std::remove_pointer_t<decltype(field)>>(row); },
                    row.field(defaults))});
  return out;
}

}  // namespace freshet
