// The table of directives, and conversions between TOML values and fields of Settings. Used in
// core/config only.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "core/config/settings.h"

namespace freshet::config {

// A pointer to the directive's field in Settings. Its type determines which TOML types are
// accepted. An optional is "auto" without a value.
using Field = std::variant<std::string*, bool*, int*, std::int64_t*, std::size_t*, double*, seconds*,
                           milliseconds*, std::vector<std::string>*, std::map<std::string, std::string>*,
                           std::optional<bool>*, std::optional<int>*, std::optional<double>*>;

// The unit of an integer, and the suffixes that a string may use.
enum class Unit : std::uint8_t {
  kNone,
  kBytes,         // 16384, "16K", "8M", "1G"
  kMilliseconds,  // 50, "50ms", "10s", "3m", "24h", "30d"; implied by fields of type milliseconds
  kSeconds,       // the same suffixes; fields of type seconds
  kMode,          // permission bits: 0o660 or "0660"
};

// Inclusive bounds of a number, in the field's unit.
struct Range {
  double low = 0;
  double high = 0;
};

struct Directive {
  std::string_view name;
  std::string_view description;
  Field (*field)(Settings&);
  Range range{};
  Unit unit = Unit::kNone;
  std::string_view choices{};  // "a|b|c": the only strings allowed
};

// All directives, in the order of the shipped file.
std::span<const Directive> directives();

// The directive with that name or former name (aliases.h), or nullptr. `pm` and `listen` are
// accepted for `pm.mode` and `listen.address`. O(directives).
const Directive* find_directive(std::string_view name);

// Sets the directive's field from `node`. The error has no name, file or line.
tl::expected<void, std::string> assign(const Directive& directive, const toml::node& node,
                                       Settings& settings);

// Like assign(), from the text of an environment variable: strings, numbers and times without
// quotes, elements of arrays separated by commas, tables as NAME=VALUE separated by commas.
tl::expected<void, std::string> assign_text(const Directive& directive, std::string_view text,
                                            Settings& settings);

// The current value as TOML that assign() reads back to the same value.
std::string format(const Directive& directive, const Settings& settings);

}  // namespace freshet::config
