// The configuration file: TOML with PHP-FPM's directive names. Each directive is one row of a table
// in config.cpp: name, meaning, type, range, where it goes in Settings. An unknown directive, a
// wrong type or a value out of range is an error that names file and line. Nested tables and dotted
// keys are the same thing: `pm.max_children = 2` and `[pm]` / `max_children = 2`.
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

// Reads `path` and the conf.d/*.toml beside it (in name order, later wins). Errors: kInvalid,
// "bad_config", detail "file:line: what is wrong" (one line each, all of them).
Result<LoadedConfig> load_config(const std::string& path);

// Names of all directives, for `-tt` and for the test that the shipped file explains each.
std::vector<std::string_view> directive_names();

// Every directive with its value in force, one `name = value` a line (`-tt`).
std::string dump_config(const Settings& settings);

}  // namespace freshet
