#include "core/config/config.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/edit_distance.h"
#include "core/base/secret.h"
#include "core/config/aliases.h"
#include "core/config/config_check.h"
#include "core/config/config_directives.h"
#include "core/config/tuning.h"

namespace freshet {
namespace {

namespace fs = std::filesystem;

std::string_view last_component(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// The directive with the smallest `distance(directive's name)`; empty if none is close to a name of
// that length.
template <class Distance>
std::string_view nearest_directive(std::size_t length, Distance distance) {
  std::string_view best;
  std::size_t best_distance = max_edits(length) + 1;
  for (const auto& row : config::directives()) {
    if (const std::size_t each = distance(row.name); each < best_distance) {
      best_distance = each;
      best = row.name;
    }
  }
  return best;
}

// The directive that `name` is most likely a misspelling of; empty if none is close.
std::string_view nearest_directive(std::string_view name) {
  return nearest_directive(name.size(), [name](std::string_view directive) {
    const std::size_t distance = edit_distance(name, directive);
    return last_component(directive) == last_component(name) ? std::min<std::size_t>(distance, 2) : distance;
  });
}

int read_somaxconn() {
  int value = 0;
  std::ifstream("/proc/sys/net/core/somaxconn") >> value;
  return value;
}

constexpr std::string_view kVariablePrefix = "FRESHET_CONF_";

// The environment variable of a directive.
std::string variable_of(std::string_view directive) {
  std::string name(kVariablePrefix);
  for (const char c : directive)
    name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

// The directive, by its current or a former name, that `variable` sets; empty if there is none.
std::string_view directive_of(std::string_view variable) {
  const auto matches = [&](std::string_view name) { return variable_of(name) == variable; };
  for (const auto& row : config::directives())
    if (matches(row.name)) return row.name;
  for (const NameAlias& alias : kNameAliases)
    if (matches(alias.former_name) && config::find_directive(alias.name)) return alias.former_name;
  for (const std::string_view name : {"pm", "listen"})
    if (matches(name)) return name;
  return {};
}

// The directive whose variable `variable` is most likely a misspelling of; empty if none is close.
std::string_view nearest_directive_of(std::string_view variable) {
  const std::string name = variable_of(variable.substr(kVariablePrefix.size()));
  const std::string end = "_" + name.substr(kVariablePrefix.size());
  return nearest_directive(end.size(), [&](std::string_view directive) {
    const std::string candidate = variable_of(directive);
    return candidate.ends_with(end) ? 2 : edit_distance(name, candidate);
  });
}

// Reads the environment and several files into one Settings and collects all errors.
class ConfigReader {
 public:
  void read_environment();
  void read_file(const fs::path& path);
  // Applies the values of tune.file to directives that are not set, or set to "auto".
  void read_tuning();
  void finish(const fs::path& main_file);
  ConfigSources sources() const;

  Settings settings;
  std::vector<std::string> errors, warnings;

 private:
  struct SourceLocation {
    std::string file;             // or an environment variable
    toml::source_index line = 0;  // 0: a variable
    std::string text() const { return line == 0 ? file : file + ":" + std::to_string(line); }
  };

  void read_variable(const std::string& variable, const std::string& value);

  void read_table(const toml::table& table, const std::string& prefix);
  void read_value(const std::string& name, const toml::node& node);
  bool read_map_entry(const std::string& name, const toml::node& node);
  void report_unknown(const std::string& name, const SourceLocation& place);
  void resolve_files(const fs::path& folder);
  std::string hint_about(const config::Finding& finding) const;

  std::string file_;
  std::vector<std::string> missing_secrets_;                      // paths of secrets named without a folder
  std::map<std::string, SourceLocation, std::less<>> locations_;  // directive → where it was last set
};

void ConfigReader::read_environment() {
  std::map<std::string, std::string> variables;  // in a stable order
  for (char** each = environ; each != nullptr && *each != nullptr; ++each) {
    const std::string_view text(*each);
    const std::size_t equals = text.find('=');
    if (text.starts_with(kVariablePrefix) && equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  for (const auto& [variable, value] : variables) read_variable(variable, value);
}

void ConfigReader::read_variable(const std::string& variable, const std::string& value) {
  const std::string_view name = directive_of(variable);
  if (name.empty()) {
    std::string text = variable + ": no directive has this variable";
    if (const auto nearest = nearest_directive_of(variable); !nearest.empty())
      text += "; did you mean " + variable_of(nearest) + "?";
    errors.push_back(std::move(text));
    return;
  }
  const auto* row = config::find_directive(name);
  const std::string canonical_name(row->name);
  if (find_alias(name))
    warnings.push_back(variable + ": this variable is now called " + variable_of(row->name));
  if (value.empty()) {
    warnings.push_back(variable + " is empty and ignored; set an empty value of " + canonical_name +
                       " in a file");
    return;
  }
  if (const auto [previous, is_first] = locations_.emplace(canonical_name, SourceLocation{variable});
      !is_first) {
    errors.push_back(variable + ": " + canonical_name + " is also set by " + previous->second.file);
    return;
  }
  if (canonical_name == "redis.url" && redact_credentials(value) != value) {
    errors.push_back(variable +
                     " must not contain a user or password, because other programs can read the environment; "
                     "put the password into a file and set FRESHET_CONF_REDIS_PASSWORD_FILE to its path, and "
                     "FRESHET_CONF_REDIS_USERNAME to the user");
    return;
  }
  if (auto ok = config::assign_text(*row, value, settings); !ok)
    errors.push_back(variable + ": " + canonical_name + " " + ok.error());
}

void ConfigReader::read_file(const fs::path& path) {
  file_ = path.string();
  std::error_code code;
  std::ifstream in;
  if (!fs::is_directory(path, code)) in.open(path, std::ios::binary);
  if (!in.is_open()) {
    errors.push_back(file_ +
                     ":1: cannot be read: " + std::strerror(code ? code.value() : (errno ? errno : EISDIR)));
    return;
  }
  std::ostringstream text;
  text << in.rdbuf();
  try {
    read_table(toml::parse(text.view(), file_), "");
  } catch (const toml::parse_error& error) {
    errors.push_back(SourceLocation{file_, error.source().begin.line}.text() + ": " +
                     std::string(error.description()));
  }
}

// The field of a directive that takes a table; null for others.
std::map<std::string, std::string>* map_field(const config::Directive& row, Settings& settings) {
  const auto field = row.field(settings);
  const auto* const map = std::get_if<std::map<std::string, std::string>*>(&field);
  return map ? *map : nullptr;
}

void ConfigReader::read_table(const toml::table& table, const std::string& prefix) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix.empty() ? std::string(key.str()) : prefix + "." + std::string(key.str());
    const auto* row = config::find_directive(name);
    if (node.is_table() && !(row && row->name == name && map_field(*row, settings)))
      read_table(*node.as_table(), name);
    else
      read_value(name, node);
  }
}

// Handles quoted keys such as "identity.token_keys.k1".
bool ConfigReader::read_map_entry(const std::string& name, const toml::node& node) {
  if (!node.is_string()) return false;
  for (const auto& row : config::directives()) {
    const std::string prefix = std::string(row.name) + ".";
    auto* const map = map_field(row, settings);
    if (!map || !name.starts_with(prefix)) continue;
    const SourceLocation place{file_, node.source().begin.line};
    SourceLocation& location = locations_[std::string(row.name)];
    if (location.line == 0 && !location.file.empty()) {  // a variable
      warnings.push_back(location.file + " has no effect, because " + place.text() + " sets " +
                         std::string(row.name));
      map->clear();
    }
    (*map)[name.substr(prefix.size())] = node.as_string()->get();
    location = place;
    return true;
  }
  return false;
}

void ConfigReader::read_value(const std::string& name, const toml::node& node) {
  const SourceLocation place{file_, node.source().begin.line};
  const auto* row = config::find_directive(name);
  if (!row) {
    if (!read_map_entry(name, node)) report_unknown(name, place);
    return;
  }
  const std::string canonical_name(row->name);
  if (find_alias(name)) warnings.push_back(place.text() + ": " + name + " is now called " + canonical_name);
  const auto previous = locations_.find(canonical_name);
  if (previous != locations_.end() && previous->second.file == file_) {
    const auto [first, second] = std::minmax(previous->second.line, place.line);
    errors.push_back(SourceLocation{file_, second}.text() + ": " + canonical_name +
                     " is set twice, first on line " + std::to_string(first));
    return;
  }
  const std::string variable =
      previous != locations_.end() && previous->second.line == 0 ? previous->second.file : "";
  const std::string old_value = variable.empty() ? "" : config::format(*row, settings);
  locations_[canonical_name] = place;
  if (auto ok = config::assign(*row, node, settings); !ok)
    errors.push_back(place.text() + ": " + canonical_name + " " + ok.error());
  else if (!variable.empty() && config::format(*row, settings) != old_value)
    warnings.push_back(variable + " has no effect, because " + place.text() + " sets " + canonical_name);
}

void ConfigReader::report_unknown(const std::string& name, const SourceLocation& place) {
  std::string text = place.text() + ": unknown directive \"" + name + "\"";
  if (const auto suggestion = nearest_directive(name); !suggestion.empty())
    text += "; did you mean \"" + std::string(suggestion) + "\"?";
  errors.push_back(std::move(text));
}

// Resolves the name of a secret file given without a folder. Under systemd it is a credential of
// that name, or secrets_NAME (from the units' LoadCredential=secrets:…). Otherwise it is a file
// next to the configuration, or in its secrets/ folder.
fs::path find_secret(const std::string& name, const fs::path& folder) {
  const char* credentials = std::getenv("CREDENTIALS_DIRECTORY");
  const fs::path preferred = credentials ? fs::path(credentials) / name : folder / name;
  const fs::path fallback =
      credentials ? fs::path(credentials) / ("secrets_" + name) : folder / "secrets" / name;
  std::error_code error;
  // A file in a folder that this user may not look into may exist.
  const auto may_exist = [&](const fs::path& path) {
    return fs::exists(path, error) || error == std::errc::permission_denied;
  };
  return !may_exist(preferred) && may_exist(fallback) ? fallback : preferred;
}

void ConfigReader::resolve_files(const fs::path& folder) {
  const auto relative = [](const std::string& path) { return !path.empty() && fs::path(path).is_relative(); };
  const auto resolve = [&](std::string& secret) {
    if (!relative(secret)) return;
    secret = find_secret(secret, folder).string();
    if (read_access_error(secret) == ENOENT) missing_secrets_.push_back(secret);
  };
  for (std::string* secret :
       {&settings.redis.password_file, &settings.redis.sentinel_password_file, &settings.identity.salt_file})
    resolve(*secret);
  for (auto* keys : {&settings.identity.token_key_files, &settings.identity.internal_key_files})
    for (auto& [kid, path] : *keys) resolve(path);
  for (std::string* list : {&settings.clients.deny_file, &settings.clients.allow_file})
    if (relative(*list)) *list = (folder / *list).string();
}

// A drop-in's LoadCredential= provides a secret to the service only.
std::string ConfigReader::hint_about(const config::Finding& finding) const {
  const auto is_named = [&](const std::string& path) {
    return finding.text.find(": " + path + ": ") != finding.text.npos;
  };
  if (std::getenv("CREDENTIALS_DIRECTORY") || std::ranges::none_of(missing_secrets_, is_named)) return {};
  return "; if a unit's LoadCredential= provides it, only the service can read it, and `systemctl reload "
         "freshet` "
         "tests the configuration there";
}

void ConfigReader::finish(const fs::path& main_file) {
  if (!errors.empty()) return;  // checks on half-read settings would report false errors
  resolve_files(fs::absolute(main_file).parent_path());
  for (const auto& finding : config::check_settings(settings, read_somaxconn())) {
    SourceLocation place{main_file.string(), 1};
    for (const auto name : finding.names)
      if (const auto found = locations_.find(name); found != locations_.end()) {
        const bool is_later =
            place.line == 1 || found->second.file != place.file || found->second.line > place.line;
        if (is_later) place = found->second;
      }
    (finding.is_error ? errors : warnings)
        .push_back(place.text() + ": " + finding.text + hint_about(finding));
  }
}

// A service must not fail to start because of the file, so what is wrong with it is a warning.
void ConfigReader::read_tuning() {
  if (!errors.empty()) return;
  const auto ignore = [&](const std::string& why) {
    warnings.push_back(settings.tune_file + " is ignored: " + why);
  };
  const auto tuning = load_tuning(settings.tune_file, wall_now());
  if (!tuning) return ignore(tuning.error().detail);
  Settings tuned = settings;
  std::vector<std::string> applied;
  for (const auto& [name, value] : tuning->values) {
    const config::Directive& row = *config::find_directive(name);
    if (locations_.contains(name) && config::format(row, settings) != R"("auto")") continue;
    if (auto ok = config::assign_text(row, value, tuned); !ok) return ignore(name + " " + ok.error());
    applied.push_back(name);
  }
  for (const auto& finding : config::check_settings(tuned, read_somaxconn())) {
    const auto is_applied = [&](const auto& name) {
      return std::ranges::find(applied, name) != applied.end();
    };
    if (finding.is_error && std::ranges::any_of(finding.names, is_applied)) return ignore(finding.text);
  }
  settings = std::move(tuned);
  if (!applied.empty()) settings.tuned_at = tuning->created;
  for (const std::string& name : applied) locations_[name] = {settings.tune_file, 0};
}

ConfigSources ConfigReader::sources() const {
  ConfigSources out;
  for (const auto& [name, location] : locations_) out.emplace(name, location.text());
  return out;
}

std::vector<fs::path> conf_d_files(const fs::path& main_file) {
  std::vector<fs::path> files;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(main_file.parent_path() / "conf.d", code))
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

// Hides user and password of URLs in the field of a directive.
struct RedactUrls {
  void operator()(std::string* text) const {
    if (text->find("://") != std::string::npos) *text = redact_credentials(*text);
  }
  void operator()(std::vector<std::string>* texts) const {
    for (std::string& text : *texts) (*this)(&text);
  }
  void operator()(std::map<std::string, std::string>* texts) const {
    for (auto& [name, text] : *texts) (*this)(&text);
  }
  template <class Other>
  void operator()(Other*) const {}
};

}  // namespace

Result<LoadedConfig> load_config(const std::string& path) {
  ConfigReader reader;
  reader.read_environment();
  if (!path.empty()) {
    reader.read_file(path);
    for (const auto& file : conf_d_files(path)) reader.read_file(file);
  }
  reader.read_tuning();
  reader.finish(path.empty() ? kDefaultConfigPath : path);
  if (reader.errors.empty())
    return LoadedConfig{std::move(reader.settings), std::move(reader.warnings), reader.sources()};
  std::string detail;
  for (const std::string& error : reader.errors) detail += (detail.empty() ? "" : "\n") + error;
  return fail(ErrorCode::kInvalid, "bad_config", {}, std::move(detail));
}

std::vector<std::string_view> directive_names() {
  std::vector<std::string_view> names;
  for (const auto& row : config::directives()) names.push_back(row.name);
  return names;
}

std::string dump_config(const Settings& settings, const ConfigSources& sources) {
  Settings redacted = settings;
  std::string out;
  for (const auto& row : config::directives()) {
    std::visit(RedactUrls(), row.field(redacted));
    const auto source = sources.find(row.name);
    out += std::string(row.name) + " = " + config::format(row, redacted) + "  # " +
           (source == sources.end() ? "default" : source->second) + "\n";
  }
  return out;
}

}  // namespace freshet
