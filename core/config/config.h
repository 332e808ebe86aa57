// The configuration file: TOML with PHP-FPM's directive names. config_directives.cpp has one row
// per directive: name, description, type, range and field in Settings. An unknown directive, a
// wrong type or a value out of range is an error that names file and line. Nested tables and dotted
// keys are equivalent: `pm.max_children = 2` and `[pm]` / `max_children = 2`.
//
// The environment variable FRESHET_CONF_NAME sets a directive unless a file sets it. NAME is the
// directive's name in upper case, with _ for the dot (FRESHET_CONF_PM_MAX_CHILDREN).
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/config/settings.h"

namespace freshet {

// Directive → where its value is from: "file:line", or the name of the environment variable.
// Directives with their default value are absent.
using ConfigSources = std::map<std::string, std::string, std::less<>>;

struct LoadedConfig {
  Settings settings;
  std::vector<std::string> warnings;  // each names file and line, or an environment variable
  ConfigSources sources;
};

inline constexpr const char* kDefaultConfigPath = "/etc/freshet/freshet.toml";

// Reads the environment, then `path`, then conf.d/*.toml next to it in name order; later values
// win. A valid tune.file (tuning.h) then supplies directives that none of these sources set, or
// that they set to "auto". An empty `path` reads the environment only. Error: kInvalid
// "bad_config", with all errors in the detail, one "file:line: text" per line.
Result<LoadedConfig> load_config(const std::string& path);

// Names of all directives, in the order of the shipped file.
std::vector<std::string_view> directive_names();

// All directives with their current values, one `name = value  # source` per line (`-tt`).
std::string dump_config(const Settings& settings, const ConfigSources& sources);

}  // namespace freshet
