#include "core/config/config.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "core/config/aliases.h"
#include "tests/support/error_of.h"

namespace freshet {
namespace {

namespace fs = std::filesystem;
using test::error_of;

// A temporary folder.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "freshet-config-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }
  std::string write(const fs::path& name, const std::string& text) const {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

Result<LoadedConfig> load(const std::string& text) {
  const Folder folder;
  return load_config(folder.write("freshet.toml", text));
}

Settings settings_of(const std::string& text) {
  auto loaded = load(text);
  INFO((loaded ? "" : loaded.error().detail));
  REQUIRE(loaded.has_value());
  return loaded->settings;
}

// The errors without their folder: "freshet.toml:3: …", one per line.
std::string errors_of(const std::string& text) {
  const auto loaded = load(text);
  if (loaded) return "none";
  CHECK(error_of(loaded).reason == "bad_config");
  return std::regex_replace(error_of(loaded).detail, std::regex("/[^\n:]*/"), "");
}

std::string warnings_of(const std::string& text) {
  const auto loaded = load(text);
  REQUIRE(loaded.has_value());
  std::string all;
  for (const auto& warning : loaded->warnings) all += warning + "\n";
  return std::regex_replace(all, std::regex("/[^\n:]*/"), "");
}

// The output of -tt without the sources.
std::string dump(const Settings& settings) {
  return std::regex_replace(dump_config(settings, {}), std::regex("  # default\n"), "\n");
}

// An environment variable that is set for the lifetime of the object.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string shipped_file() {
  std::ifstream in(FRESHET_SOURCE_DIR "/systemd/freshet.toml");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The shipped file with every directive uncommented: "#name = value" becomes "name = value". Prose
// begins with "# ".
std::string uncommented_file() {
  return std::regex_replace(shipped_file(), std::regex("(^|\n)#([a-z])"), "$1$2");
}

TEST_CASE("an empty file gives the defaults of Settings", "[config]") {
  CHECK(dump(settings_of("")) == dump(Settings()));
}

TEST_CASE("every directive is in the shipped file exactly once", "[config]") {
  const std::string text = shipped_file();
  for (const auto name : directive_names()) {
    const std::regex line("(^|\n)#?" + std::regex_replace(std::string(name), std::regex("\\."), "\\.") +
                          " = ");
    CAPTURE(name);
    CHECK(std::distance(std::sregex_iterator(text.begin(), text.end(), line), std::sregex_iterator()) == 1);
  }
}

TEST_CASE("the shipped file contains only directives, with their default values", "[config]") {
  REQUIRE_FALSE(shipped_file().empty());
  CHECK(dump(settings_of(shipped_file())) == dump(Settings()));
  CHECK(dump(settings_of(uncommented_file())) == dump(Settings()));
  const auto lines = [](const std::string& t) { return std::count(t.begin(), t.end(), '\n'); };
  CHECK(static_cast<std::size_t>(lines(dump(Settings()))) == directive_names().size());
}

TEST_CASE("every directive of the shipped file has a comment above it", "[config]") {
  std::istringstream lines(shipped_file());
  std::string line;
  bool explained = false;
  while (std::getline(lines, line)) {
    if (line.empty()) explained = false;
    if (line.starts_with("# ") && !line.starts_with("# ---")) explained = true;
    // The headings explain the two groups of weights.
    const bool weight = contains(line, "_weight");
    if (std::regex_search(line, std::regex("^#[a-z]"))) CHECK((explained || weight));
  }
}

TEST_CASE("tables, dotted keys and quoted keys name the same directive", "[config]") {
  for (const char* text : {"pm.max_children = 3", "[pm]\nmax_children = 3", "pm = { max_children = 3 }",
                           "\"pm.max_children\" = 3", "pm = \"static\"\n\"pm.max_children\" = 3"}) {
    CAPTURE(text);
    CHECK(settings_of(text).pool.max_children == 3);
  }
  CHECK(settings_of("listen = \"127.0.0.1:9000\"").pool.listen == "127.0.0.1:9000");
  CHECK(settings_of("listen.address = \"/tmp/x\"").pool.listen == "/tmp/x");
}

TEST_CASE("token keys are a table from key id to file", "[config]") {
  for (const char* text : {"[identity.token_keys]\nk1 = \"/a\"", "identity.token_keys = { k1 = \"/a\" }",
                           "identity.token_keys.k1 = \"/a\"", "\"identity.token_keys.k1\" = \"/a\""}) {
    CAPTURE(text);
    CHECK(settings_of(text).identity.token_key_files == std::map<std::string, std::string>{{"k1", "/a"}});
  }
}

TEST_CASE("durations are integers in the documented unit or strings with a suffix", "[config]") {
  CHECK(settings_of("redis.timeout = 70").redis.timeout == milliseconds(70));
  CHECK(settings_of("redis.timeout = \"70ms\"").redis.timeout == milliseconds(70));
  CHECK(settings_of("process_control_timeout = 5").pool.process_control_timeout == seconds(5));
  CHECK(settings_of("process_control_timeout = \"5000ms\"").pool.process_control_timeout == seconds(5));
  CHECK(settings_of("hot.half_life = \"24h\"").engagement.half_life == seconds(86400));
  CHECK(settings_of("hot.counter_ttl = \"7d\"").engagement.counter_ttl == seconds(7 * 86400));
  CHECK(settings_of("hot.dwell_cap = \"2m\"").engagement.dwell_cap_ms == 120000);
  CHECK(settings_of("hot.dwell_prior = \"20s\"").engagement.dwell_prior_ms == 20000.0);
  CHECK(contains(errors_of("process_control_timeout = \"50ms\""), "not a whole number of seconds"));
  for (const char* bad :
       {"\"5 s\"", "\"s\"", "\"5\"", "\"1.5s\"", "\"5weeks\"", "\"99999999999999999d\"", "5.0", "true"})
    CHECK(contains(errors_of(std::string("redis.timeout = ") + bad), "freshet.toml:1: redis.timeout "));
}

TEST_CASE("sizes accept K, M and G, and modes are octal", "[config]") {
  CHECK(settings_of("gateway.max_body_bytes = \"32K\"").gateway.max_body_bytes == 32768);
  CHECK(settings_of("spool.max_bytes = \"1G\"").spool.max_bytes == std::size_t{1} << 30);
  CHECK(settings_of("listen.mode = 0o600").pool.listen_mode == 0600);
  CHECK(settings_of("listen.mode = \"0666\"").pool.listen_mode == 0666);
  CHECK(contains(errors_of("listen.mode = 660"), "outside 0..511"));  // decimal by mistake
  CHECK(contains(errors_of("listen.mode = \"0888\""), "octal"));
}

TEST_CASE("a directive that takes a table accepts every TOML syntax for tables", "[config]") {
  for (const char* text :
       {"env = { A = \"1\", B_C = \"\" }", "[env]\nA = \"1\"\nB_C = \"\"", "env.A = \"1\"\nenv.B_C = \"\""}) {
    CAPTURE(text);
    CHECK(settings_of(text).pool.env == std::map<std::string, std::string>{{"A", "1"}, {"B_C", ""}});
  }
  CHECK(settings_of("identity.internal_keys = { k1 = \"/k\" }").identity.internal_key_files.contains("k1"));
  CHECK(contains(errors_of("env.A = 1"), "env must be a table of strings"));
}

TEST_CASE("all errors are reported at once, each with file and line", "[config]") {
  const std::string errors =
      errors_of("\npm.max_children = -1\n[redis]\ntimeout = \"x\"\n[list]\nfloor = \"no\"\nttl = 0\n");
  CHECK(contains(errors, "freshet.toml:2: pm.max_children -1 is outside 0..1024"));
  CHECK(contains(
      errors, "freshet.toml:4: redis.timeout \"x\" is not an integer with one of the units d, h, m, s, ms"));
  CHECK(contains(errors, "freshet.toml:6: list.min_score must be a number"));
  CHECK(contains(errors, "freshet.toml:7: list.ttl 0 is outside 1..86400"));
  CHECK(std::count(errors.begin(), errors.end(), '\n') == 3);
}

TEST_CASE("a file that is not TOML is an error with its line", "[config]") {
  CHECK(contains(errors_of("user = \"a\"\ngroup ="), "freshet.toml:2: "));
  CHECK(contains(error_of(load_config("/no/freshet.toml")).detail,
                 "/no/freshet.toml:1: cannot be read: No such"));
  CHECK(contains(error_of(load_config("/tmp")).detail, "/tmp:1: cannot be read"));
}

TEST_CASE("an error for an unknown directive suggests the nearest known one", "[config]") {
  CHECK(contains(errors_of("\npm.max_childern = 2"),
                 "freshet.toml:2: unknown directive \"pm.max_childern\"; did you mean \"pm.max_children\"?"));
  CHECK(contains(errors_of("max_children = 2"), "did you mean \"pm.max_children\"?"));
  CHECK(contains(errors_of("listen_backlog = 2"), "did you mean \"listen.backlog\"?"));
  CHECK_FALSE(contains(errors_of("completely.something.else = 2"), "did you mean"));
}

TEST_CASE("setting a directive twice in one file is an error, whatever the spelling", "[config]") {
  CHECK(contains(errors_of("\"pm.max_children\" = 3\n[pm]\nmax_children = 4"),
                 "freshet.toml:3: pm.max_children is set twice, first on line 1"));
}

TEST_CASE("files in conf.d are read in name order and the last value wins", "[config]") {
  const Folder folder;
  const std::string path = folder.write("freshet.toml", "pm.max_children = 1\nlog_level = \"error\"");
  folder.write("conf.d/20.toml", "pm.max_children = 3");
  folder.write("conf.d/10.toml", "pm.max_children = 2\nredis.db = 4");
  folder.write("conf.d/30.toml.off", "pm.max_children = 9");
  const auto loaded = load_config(path);
  REQUIRE(loaded.has_value());
  CHECK(loaded->settings.pool.max_children == 3);
  CHECK(loaded->settings.redis.db == 4);
  CHECK(loaded->settings.log_level == "error");
  folder.write("conf.d/10.toml", "\nredis.dbb = 4");
  CHECK(contains(error_of(load_config(path)).detail, "conf.d/10.toml:2: unknown directive"));
}

TEST_CASE("a check across directives names the line of the one set last", "[config]") {
  struct Case {
    const char* text;
    const char* error;
  };
  const auto [text, error] = GENERATE(
      Case{"\nredis.timeout = \"200ms\"",
           "freshet.toml:2: redis.timeout must be below gateway.request_budget"},
      Case{"redis.timeout = 40\ngateway.request_budget = 40", "freshet.toml:2: redis.timeout must be below"},
      Case{"gateway.request_budget = \"10s\"",
           "freshet.toml:1: gateway.request_budget must be below request_terminate_timeout"},
      Case{"gateway.bulk_budget = \"100ms\"", "must not exceed gateway.bulk_budget"},
      Case{"gateway.max_body_bytes = \"9M\"", "gateway.max_body_bytes must not exceed"},
      Case{"redis.reconnect_min = \"3s\"", "redis.reconnect_min must not exceed"},
      Case{"redis.key_prefix = \"{site}:\"", "redis.key_prefix must not contain braces"},
      Case{"rlimit_files = 1024", "rlimit_files must be 0 or at least pm.max_in_flight + 64"},
      Case{"hot.pv_weight = 0\nhot.uv_weight = 0.0",
           "freshet.toml:2: hot.pv_weight and hot.uv_weight cannot both be 0"},
      Case{"hot.half_life = 599", "hot.half_life 599 is outside 600.."},
      Case{"hot.dwell_prior = \"10m\"", "hot.dwell_prior must not exceed hot.dwell_cap"},
      Case{"hot.session_window = \"20d\"\nhot.counter_ttl = \"10d\"",
           "freshet.toml:2: hot.session_window must not exceed"},
      Case{"views.dedup_window = \"20d\"\nviews.counter_ttl = \"10d\"", "views.dedup_window must not exceed"},
      Case{"list.rebuild_interval = \"2m\"", "list.rebuild_interval must not exceed list.ttl"},
      Case{"list.rebuild_interval = 500", "list.worker_ttl must not exceed list.rebuild_interval"},
      Case{"identity.mode = \"token\"", "identity.token_keys must contain a key"},
      Case{"identity.mode = \"open\"\nlisten = \"*:9000\"", "which is not loopback"},
      Case{"listen = \"nowhere\"", "listen.address must be an absolute path"},
      Case{"listen = \"localhost:70000\"", "listen.address must be an absolute path"},
      Case{"ready.require = [\"redis\", \"recorder\"]",
           "ready.require accepts redis, items, index, model and writes"},
      Case{"pm.status_listen = \"status\"", "pm.status_listen must be an absolute path"},
      Case{"listen = \"/tmp/x\"\npm.status_listen = \"/tmp/x\"", "must differ from listen.address"},
      Case{"listen.allowed_clients = [\"example.org\"]", "neither an address nor ADDRESS/BITS: example.org"},
      Case{"listen.allowed_clients = [\"10.0.0.0/8\", \"10.1.0.0/8\"]",
           "freshet.toml:1: listen.allowed_clients must contain addresses and networks, such as "
           "\"192.0.2.7\" and "
           "\"10.0.0.0/8\": the address has host bits set: 10.1.0.0/8"},
      Case{"listen.allowed_clients = [\"2001:db8::/129\"]", "neither an address nor ADDRESS/BITS"},
      Case{"user = \"no-such-user\"", "user names an unknown user"},
      Case{"ping.path = \"/status\"", "ping.path and pm.status_path must differ"},
      Case{"ping.path = \"status\"", "ping.path must begin with /"},
      Case{"http.internal_hosts = [\"feed.internal:8081\"]", "http.internal_hosts must contain names"},
      Case{"http.cors_origins = [\"https://example.org/\"]", "http.cors_origins must contain origins"},
      Case{"pm.mode = \"fast\"", "\"fast\" is not one of static|dynamic|ondemand"},
      Case{"pm.mode = \"dynamic\"\npm.max_children = 2\npm.min_spare_servers = 3",
           "freshet.toml:3: pm.min_spare_servers must not exceed pm.max_children"},
      Case{"pm.mode = \"dynamic\"\npm.max_children = 2\npm.max_spare_servers = 3",
           "freshet.toml:3: pm.max_spare_servers must not exceed pm.max_children"},
      Case{"pm.mode = \"dynamic\"\npm.min_spare_servers = 3\npm.max_spare_servers = 2",
           "freshet.toml:3: pm.max_spare_servers must be 0 or at least pm.min_spare_servers"},
      Case{"pm.mode = \"dynamic\"\npm.start_servers = 1\npm.min_spare_servers = 2",
           "freshet.toml:2: pm.start_servers must be 0 or between"},
      Case{"pm.mode = \"dynamic\"\npm.max_children = 4\npm.start_servers = 5",
           "pm.start_servers must be 0 or between"},
      Case{"chdir = \"/no-such-folder\"", "chdir must be the absolute path of an existing folder"},
      Case{"chdir = \"..\"", "chdir must be the absolute path of an existing folder"},
      Case{"chdir = \"/\"\nspool.path = \"spool\"",
           "freshet.toml:1: chdir requires absolute paths for all files"},
      Case{"env = { \"A=B\" = \"1\" }", "env must contain names without ="},
      Case{"views.gamma = nan", "views.gamma must be finite"},
      Case{"bots.allow = [1]", "bots.allow must be an array of strings"},
      Case{"identity.token_keys = { k1 = 1 }", "identity.token_keys must be a table of strings"},
      Case{"history.from_track = 1", "history.from_track must be true or false"});
  const std::string errors = errors_of(text);
  CAPTURE(text, errors);
  CHECK(contains(errors, error));
}

TEST_CASE("suspicious but valid settings give a warning with file and line", "[config]") {
  CHECK(contains(warnings_of("\nviews.gamma = 1.2"), "freshet.toml:2: views.gamma is outside 1.3..1.8"));
  CHECK(contains(warnings_of("views.base_hours = 4"), "freshet.toml:1: views.base_hours is outside 1..3"));
  CHECK(contains(warnings_of("\nenv = { A = \"$FRESHET_NO_SUCH_VARIABLE\" }"),
                 "freshet.toml:2: env refers to a variable that is not set for the master"));
  CHECK(warnings_of("env = { A = \"$PATH\", B = \"5\" }").empty());
  for (const char* mode : {"static", "dynamic", "ondemand"})
    CHECK(warnings_of("pm.mode = \"" + std::string(mode) + "\"\npm.max_spare_servers = 2").empty());
  CHECK(contains(
      warnings_of("identity.mode = \"open\"\nidentity.open_public = true\nlisten = \"0.0.0.0:9000\""),
      "freshet.toml:3: identity.mode open trusts"));
  for (const std::string directive :
       {"identity.salt_file", "redis.password_file", "redis.sentinel_password_file", "clients.deny_file"}) {
    CHECK(contains(warnings_of(directive + " = \"/dev/null/none\""),
                   directive + ": none: cannot be read: Not a directory"));
    CHECK(contains(warnings_of(directive + " = \"/tmp\""), "/tmp: cannot be read: Is a directory"));
  }
  for (const std::string directive : {"identity.token_keys", "identity.internal_keys"})
    CHECK(contains(warnings_of(directive + " = { k1 = \"/nope\" }"),
                   "freshet.toml:1: " + directive + ": /nope: cannot be read: No such file or directory"));
  CHECK(contains(warnings_of("listen.allowed_clients = [\"127.0.0.1\"]"), "has no effect on a unix socket"));
  CHECK(contains(warnings_of("listen.address = \"*:9000\""),
                 "list nginx's addresses in listen.allowed_clients"));
  CHECK_FALSE(contains(warnings_of("listen.address = \"*:9000\"\nlisten.allowed_clients = [\"10.0.0.0/8\"]"),
                       "allowed_clients"));
  CHECK_FALSE(
      contains(warnings_of("pm.status_listen = \"*:9001\"\nlisten.allowed_clients = [\"10.0.0.0/8\"]"),
               "has no effect"));
  CHECK_FALSE(contains(warnings_of("redis.url = \"redis://redis.example.org:6379\""), "redis.url"));
  int somaxconn = 0;
  std::ifstream("/proc/sys/net/core/somaxconn") >> somaxconn;
  if (somaxconn > 0 && somaxconn < 65535)
    CHECK(contains(warnings_of("listen.backlog = 65535"),
                   "freshet.toml:1: listen.backlog 65535 is limited by net.core.somaxconn"));
  CHECK_FALSE(contains(warnings_of("views.gamma = 1.4"), "views.gamma"));
}

TEST_CASE("every former name of a directive works and gives one warning that names the current one",
          "[config]") {
  int aliases = 0;
  for (const NameAlias& alias : kNameAliases) {
    if (alias.name.find('.') == std::string_view::npos) continue;  // a command
    ++aliases;
    const std::string defaults = "\n" + dump(Settings{}), name = "\n" + std::string(alias.name) + " = ";
    REQUIRE(contains(defaults, name));
    const std::string value = defaults.substr(defaults.find(name) + name.size());
    const auto loaded = load(std::string(alias.former_name) + " = " + value.substr(0, value.find('\n')));
    REQUIRE(loaded.has_value());
    REQUIRE(loaded->warnings.size() == 1);
    CHECK(contains(loaded->warnings.front(), "freshet.toml:1: " + std::string(alias.former_name) +
                                                 " is now called " + std::string(alias.name)));
  }
  CHECK(aliases == 12);
  CHECK(settings_of("[pv]\nwindow = \"7m\"").engagement.session_window == seconds{420});
  CHECK(contains(errors_of("views.base = 1\nviews.base_hours = 2"),
                 "freshet.toml:2: views.base_hours is set twice"));
}

TEST_CASE("the output of -tt reads back to the same settings", "[config]") {
  const char* unusual =
      "pm.max_children = 7\nredis.key_prefix = \"a\\\"\\\\\\u0001ü\"\nlist.floor = 1e-300\nhot.dwell_prior = "
      "1.5\n"
      "bots.allow = [\"^curl/\", \"a,b\"]\nidentity.token_keys = { \"k 1\" = \"/x\" }\nlisten.mode = 0o600\n"
      "hot.session_window = 0\nhot.dwell_weight = 0.1\nrequest_terminate_timeout = 90\n";
  const std::string once = dump(settings_of(unusual));
  CHECK(dump(settings_of(once)) == once);
  CHECK(contains(once, "pm.max_children = 7\n"));
  CHECK(contains(once, "request_terminate_timeout = \"90s\"\n"));
  CHECK(contains(once, "hot.half_life = \"1d\"\n"));
}

TEST_CASE("the output of -tt hides user and password of URLs", "[config]") {
  const std::string text =
      dump(settings_of("redis.url = \"redis://app:secret@[::1]:6379/0\"\n"
                       "env = { PROXY = \"http://u:secret@p:1\", MAIL = \"a@example.org\" }\n"
                       "http.cors_origins = [\"https://u:secret@a\", \"https://b\"]"));
  CHECK_FALSE(contains(text, "secret"));
  CHECK(contains(text, "redis://***@[::1]:6379/0"));
  CHECK(contains(text, R"("MAIL" = "a@example.org", "PROXY" = "http://***@p:1")"));
}

// The default of a directive as the text of a variable.
std::string value_of(std::string_view directive) {
  const std::string defaults = "\n" + dump(Settings()), name = "\n" + std::string(directive) + " = ";
  const std::size_t from = defaults.find(name) + name.size();
  const std::string toml = defaults.substr(from, defaults.find('\n', from) - from);
  if (toml.front() == '"')
    return std::regex_replace(toml.substr(1, toml.size() - 2), std::regex(R"(\\(["\\]))"), "$1");
  return std::regex_replace(toml, std::regex(R"(["{}]|\[|\])"), "");
}

TEST_CASE("a variable of the environment sets each directive, under its current and former names",
          "[config]") {
  std::set<std::string> variables;
  for (const auto name : directive_names()) {
    std::string variable = "FRESHET_CONF_" + std::string(name);
    std::ranges::replace(variable, '.', '_');
    std::ranges::transform(variable, variable.begin(), [](unsigned char c) { return std::toupper(c); });
    CHECK(variables.insert(variable).second);  // two directives never share one
    CAPTURE(variable);
    const std::string value = value_of(name);
    const Variable set(variable.c_str(), value.c_str());
    const auto loaded = load_config("");
    REQUIRE(loaded);
    if (value.empty())
      CHECK(contains(warnings_of(""), variable + " is empty and ignored"));
    else
      CHECK(loaded->sources == ConfigSources{{std::string(name), variable}});
    CHECK(dump(loaded->settings) == dump(Settings()));
  }
  const Variable former("FRESHET_CONF_PV_WINDOW", "7m"), short_form("FRESHET_CONF_PM", "ondemand");
  CHECK(settings_of("").engagement.session_window == seconds{420});
  CHECK(settings_of("").pool.pm_mode == "ondemand");
  CHECK(contains(warnings_of(""),
                 "FRESHET_CONF_PV_WINDOW: this variable is now called FRESHET_CONF_HOT_SESSION_WINDOW"));
}

TEST_CASE("the text of a variable is converted to the directive's type", "[config]") {
  const Variable variables[] = {
      {"FRESHET_CONF_REDIS_URL", "redis://redis:6379/1"},
      {"FRESHET_CONF_PM_MAX_CHILDREN", "7"},
      {"FRESHET_CONF_PM_MAX_RSS", "512M"},
      {"FRESHET_CONF_REDIS_TIMEOUT", "60ms"},
      {"FRESHET_CONF_HOT_HALF_LIFE", "6h"},
      {"FRESHET_CONF_VIEWS_GAMMA", "1.4"},
      {"FRESHET_CONF_HOT_PV_WEIGHT", "2"},
      {"FRESHET_CONF_LISTEN_MODE", "0600"},
      {"FRESHET_CONF_BOTS_ENABLED", "false"},
      {"FRESHET_CONF_HTTP_INTERNAL_HOSTS", "freshet, feed.internal"},
      {"FRESHET_CONF_IDENTITY_TOKEN_KEYS", "k1=/run/secrets/k1,k2=/run/secrets/a=b"}};
  const Settings settings = settings_of("");
  CHECK(settings.redis.url == "redis://redis:6379/1");
  CHECK(settings.pool.max_children == 7);
  CHECK(settings.pool.max_rss == 512U << 20U);
  CHECK(settings.redis.timeout == milliseconds{60});
  CHECK(settings.engagement.half_life == seconds{21600});
  CHECK(settings.views.gamma == 1.4);
  CHECK(settings.engagement.pv_weight == 2);
  CHECK(settings.pool.listen_mode == 0600);
  CHECK_FALSE(settings.bots.enabled);
  CHECK(settings.http.internal_hosts == std::vector<std::string>{"freshet", "feed.internal"});
  CHECK(settings.identity.token_key_files ==
        std::map<std::string, std::string>{{"k1", "/run/secrets/k1"}, {"k2", "/run/secrets/a=b"}});
  CHECK(load_config("")->settings.pool.max_children == 7);
}

TEST_CASE("variables that are unknown, invalid or set twice are errors that name them", "[config]") {
  struct Case {
    const char* variable;
    const char* value;
    const char* error;
  };
  const auto check = [](const Case& each) {
    CAPTURE(each.variable, each.value);
    const Variable variable(each.variable, each.value);
    CHECK(contains(errors_of(""), each.error));
  };
  check({"FRESHET_CONF_REDIS_URLS", "x",
         "FRESHET_CONF_REDIS_URLS: no directive has this variable; did you mean FRESHET_CONF_REDIS_URL?"});
  check({"FRESHET_CONF_MAX_CHILDREN", "2", "did you mean FRESHET_CONF_PM_MAX_CHILDREN?"});
  check({"FRESHET_CONF_redis_url", "x", "did you mean FRESHET_CONF_REDIS_URL?"});
  check({"FRESHET_CONF_", "x", "FRESHET_CONF_: no directive has this variable"});
  check(
      {"FRESHET_CONF_FILL", "x", "FRESHET_CONF_FILL: no directive has this variable"});  // a command's alias
  check({"FRESHET_CONF_PM_MAX_CHILDREN", "two",
         "FRESHET_CONF_PM_MAX_CHILDREN: pm.max_children must be an integer"});
  check({"FRESHET_CONF_PM_MAX_CHILDREN", "4096", "pm.max_children 4096 is outside 0..1024"});
  check({"FRESHET_CONF_REDIS_TIMEOUT", "1y", "\"1y\" is not an integer with one of the units"});
  check({"FRESHET_CONF_BOTS_ENABLED", "yes", "bots.enabled must be true or false"});
  check({"FRESHET_CONF_IDENTITY_TOKEN_KEYS", "k1", "must be NAME=VALUE"});
  check({"FRESHET_CONF_PM_MODE", "fast", "\"fast\" is not one of static|dynamic|ondemand"});
  check({"FRESHET_CONF_PING_PATH", "/status",
         "FRESHET_CONF_PING_PATH: ping.path and pm.status_path must differ"});
  for (const char* url : {"redis://app:pa55@redis:6379", "redis+cluster://:pa55@10.0.0.1:6379",
                          "redis:app:pa55@redis:6379", "pa55@redis:6379"}) {
    check({"FRESHET_CONF_REDIS_URL", url, "set FRESHET_CONF_REDIS_PASSWORD_FILE to its path"});
    const Variable variable("FRESHET_CONF_REDIS_URL", url);
    CHECK_FALSE(contains(errors_of(""), "pa55"));
  }
  const Variable current("FRESHET_CONF_HOT_SESSION_WINDOW", "1m");
  check(
      {"FRESHET_CONF_PV_WINDOW", "1m", "hot.session_window is also set by FRESHET_CONF_HOT_SESSION_WINDOW"});
}

TEST_CASE("a file wins over a variable, and the output of -tt says where each value is from", "[config]") {
  const Variable children("FRESHET_CONF_PM_MAX_CHILDREN", "7"), level("FRESHET_CONF_LOG_LEVEL", "debug"),
      same("FRESHET_CONF_LIST_TTL", "90s"), empty("FRESHET_CONF_PING_PATH", "");
  const Folder folder;
  const std::string path = folder.write("freshet.toml", "\nlist.ttl = 90\npm.max_children = 3\n");
  const auto loaded = load_config(path);
  REQUIRE(loaded);
  CHECK(loaded->settings.pool.max_children == 3);
  CHECK(loaded->settings.pool.ping_path == "/ping");
  REQUIRE(loaded->warnings.size() == 2);
  CHECK(loaded->warnings[0] ==
        "FRESHET_CONF_PING_PATH is empty and ignored; set an empty value of ping.path in a file");
  CHECK(loaded->warnings[1] ==
        "FRESHET_CONF_PM_MAX_CHILDREN has no effect, because " + path + ":3 sets pm.max_children");
  const std::string text = "\n" + dump_config(loaded->settings, loaded->sources);
  CHECK(contains(text, "\npm.max_children = 3  # " + path + ":3\n"));
  CHECK(contains(text, "\nlist.ttl = \"90s\"  # " + path + ":2\n"));
  CHECK(contains(text, "\nlog_level = \"debug\"  # FRESHET_CONF_LOG_LEVEL\n"));
  CHECK(contains(text, "\nping.path = \"/ping\"  # default\n"));
  const std::string later = folder.write("conf.d/9.toml", "log_level = \"error\"");
  CHECK(load_config(path)->settings.log_level == "error");
  CHECK(load_config(path)->sources.at("log_level") == later + ":1");
}

TEST_CASE("a table in a file replaces that of a variable, however its keys are written", "[config]") {
  const Variable keys("FRESHET_CONF_IDENTITY_TOKEN_KEYS", "old=/old");
  for (const char* const text :
       {"[identity.token_keys]\nk1 = \"/a\"\nk2 = \"/b\"",
        "\"identity.token_keys.k1\" = \"/a\"\n\"identity.token_keys.k2\" = \"/b\""}) {
    CAPTURE(text);
    const Folder folder;
    const auto loaded = load_config(folder.write("freshet.toml", text));
    REQUIRE(loaded);
    CHECK(loaded->settings.identity.token_key_files ==
          std::map<std::string, std::string>{{"k1", "/a"}, {"k2", "/b"}});
    CHECK(std::ranges::any_of(loaded->warnings, [](const std::string& each) {
      return contains(each, "FRESHET_CONF_IDENTITY_TOKEN_KEYS has no effect");
    }));
  }
}

TEST_CASE("a secret file given without a folder is a systemd credential, or next to the configuration",
          "[config]") {
  const Folder folder;
  const std::string path = folder.write("freshet.toml", "redis.password_file = \"redis-password\"");
  const std::string here = folder.write("redis-password", "x");
  CHECK(load_config(path)->settings.redis.password_file == here);
  setenv("CREDENTIALS_DIRECTORY", "/run/credentials/freshet.service", 1);
  const auto loaded = load_config(path);
  unsetenv("CREDENTIALS_DIRECTORY");
  CHECK(loaded->settings.redis.password_file == "/run/credentials/freshet.service/redis-password");
}

TEST_CASE("a secret can be in the folder secrets, whose files systemd copies for the service", "[config]") {
  const Folder folder;
  const std::string path = folder.write("freshet.toml", "identity.salt_file = \"salt\"");
  const std::string stored = folder.write("secrets/salt", "x");
  CHECK(load_config(path)->settings.identity.salt_file == stored);
  const std::string copy = folder.write("secrets_salt", "x");  // named as LoadCredential=secrets:FOLDER does
  setenv("CREDENTIALS_DIRECTORY", fs::path(path).parent_path().c_str(), 1);
  const auto loaded = load_config(path);
  const std::string own = folder.write("salt", "x");
  const auto with_own = load_config(path);
  unsetenv("CREDENTIALS_DIRECTORY");
  CHECK(loaded->settings.identity.salt_file == copy);
  CHECK(with_own->settings.identity.salt_file == own);
}

TEST_CASE("a missing credential gives a warning, unless the credentials folder is inaccessible", "[config]") {
  const Folder folder;
  const std::string path = folder.write("freshet.toml", "identity.salt_file = \"salt\"");
  const auto warned = [&](const std::string& credentials) {
    setenv("CREDENTIALS_DIRECTORY", credentials.c_str(), 1);
    const auto warnings = load_config(path)->warnings;
    unsetenv("CREDENTIALS_DIRECTORY");
    return std::ranges::any_of(warnings, [](const auto& each) { return contains(each, "cannot be read"); });
  };
  CHECK(warned(fs::path(path).parent_path().string()));
  CHECK_FALSE(warned("/dev/null/none"));
}

TEST_CASE("every secret is resolved among the credentials, and client lists next to the configuration",
          "[config]") {
  const Folder folder;
  const std::string list = folder.write("deny", "192.0.2.1");
  for (const char* secret : {"redis-password", "sentinel-password", "salt", "k1", "i1"})
    folder.write(secret, "x");
  const std::string path = folder.write("freshet.toml",
                                        "redis.sentinel_password_file = \"sentinel-password\"\n"
                                        "identity.salt_file = \"salt\"\n"
                                        "identity.token_keys = { k1 = \"k1\" }\n"
                                        "identity.internal_keys = { i1 = \"i1\" }\n"
                                        "clients.deny_file = \"deny\"\n");
  setenv("CREDENTIALS_DIRECTORY", "/run/credentials/freshet.service", 1);
  const auto loaded = load_config(path);
  unsetenv("CREDENTIALS_DIRECTORY");
  REQUIRE(loaded);
  const std::string base = "/run/credentials/freshet.service/";
  CHECK(loaded->settings.redis.sentinel_password_file == base + "sentinel-password");
  CHECK(loaded->settings.identity.salt_file == base + "salt");
  CHECK(loaded->settings.identity.token_key_files.at("k1") == base + "k1");
  CHECK(loaded->settings.identity.internal_key_files.at("i1") == base + "i1");
  CHECK(loaded->settings.clients.deny_file == list);
}

}  // namespace

TEST_CASE("a directive without a value is auto, and auto can be set again", "[config]") {
  const auto value = [](const std::string& text) { return settings_of(text).recommend; };
  CHECK_FALSE(value("").cf_weight);
  CHECK(value("recommend.cf_weight = 0.5\n").cf_weight == 0.5);
  CHECK(value("recommend.rerank = false\n").rerank == false);
  CHECK(value("recommend.discover_every = 0\n").discover_every == 0);
  CHECK_FALSE(value("recommend.discover_every = \"auto\"\n").discover_every);
  CHECK_FALSE(load("recommend.cf_weight = \"none\"\n"));
  CHECK_FALSE(load("recommend.discover_every = 101\n"));
}
}  // namespace freshet
