// The table of directives and the two conversions it needs: a TOML value into a field of Settings,
// and back. Used by config.cpp only.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "core/config/settings.h"

namespace freshet::config {

// Where a directive's value lives; the alternative says which TOML types it takes.
using Field = std::variant<std::string*, bool*, int*, std::int64_t*, std::size_t*, double*, seconds*,
                           milliseconds*, std::vector<std::string>*, std::map<std::string, std::string>*>;

// What an integer without a suffix means, and which suffixes a string may carry.
enum class Unit : std::uint8_t {
  kNone,
  kBytes,         // 16384, "16K", "8M", "1G"
  kMilliseconds,  // 50, "50ms", "10s", "3m", "24h", "30d"; also of fields of the type milliseconds
  kSeconds,       // the same suffixes; fields of the type seconds
  kMode,          // 0o660 or "0660": a file's permission bits
};

// Inclusive bounds of numbers, in the field's unit.
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

// Every directive, in the order of the shipped file.
std::span<const Directive> directives();

// The row of that name, or nullptr. `pm` and `listen` are other names of `pm.mode` and
// `listen.address`. O(directives).
const Directive* find_directive(std::string_view name);

// Sets the directive's field from `node`. The error says what is wrong, without name, file and
// line.
tl::expected<void, std::string> assign(const Directive& directive, const toml::node& node,
                                       Settings& settings);

// The value in force, as TOML that assign() reads back to the same value.
std::string format(const Directive& directive, const Settings& settings);

}  // namespace freshet::config
