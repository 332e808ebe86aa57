// The configuration file: TOML with PHP-FPM's directive names. config_directives.cpp has one row
// per directive: name, description, type, range and field in Settings. An unknown directive, a
// wrong type or a value out of range is an error that names file and line. Nested tables and dotted
// keys are equivalent: `pm.max_children = 2` and `[pm]` / `max_children = 2`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"

namespace freshet {

struct LoadedConfig {
  Settings settings;
  std::vector<std::string> warnings;  // each "file:line: text"
};

// Reads `path`, then conf.d/*.toml next to it in name order; later values win. Error: kInvalid
// "bad_config", with all errors in the detail, one "file:line: text" per line.
Result<LoadedConfig> load_config(const std::string& path);

// Names of all directives, in the order of the shipped file.
std::vector<std::string_view> directive_names();

// All directives with their current values, one `name = value` per line (`-tt`).
std::string dump_config(const Settings& settings);

}  // namespace freshet
