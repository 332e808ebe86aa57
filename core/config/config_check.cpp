#include "core/config/config_check.h"

#include <arpa/inet.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "core/base/dependency.h"
#include "core/base/network_set.h"
#include "core/base/secret.h"
#include "core/config/access_format.h"

namespace freshet::config {
namespace {

using S = Settings;

bool is_unix_path(std::string_view address) { return address.starts_with('/'); }

std::string_view host_of(std::string_view address) { return address.substr(0, address.rfind(':')); }

bool is_listen_address(const std::string& address) {
  if (is_unix_path(address)) return address.size() < sizeof(sockaddr_un::sun_path);
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  int port = 0;
  const char* end = address.data() + address.size();
  const auto [rest, error] = std::from_chars(address.data() + colon + 1, end, port);
  return error == std::errc() && rest == end && port > 0 && port < 65536;
}

bool is_ip(const std::string& text) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, text.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
}

bool is_host_name(const std::string& name) {
  return !name.empty() && name.find_first_of("/:[] \t") == std::string::npos;
}

// "192.0.2.1:26379", "[2001:db8::1]:26379" or "redis.example.org:26379".
bool is_host_and_port(const std::string& text) {
  if (!is_listen_address(text) || is_unix_path(text)) return false;
  const std::string host(host_of(text));
  if (host.starts_with('[')) return host.ends_with(']') && is_ip(host.substr(1, host.size() - 2));
  return is_host_name(host) && (is_ip(host) || host.find_first_not_of("0123456789.") != std::string::npos);
}

bool is_uri_path(const std::string& path) { return path.empty() || path.starts_with('/'); }

bool is_origin(const std::string& origin) {
  const bool scheme = origin.starts_with("https://") || origin.starts_with("http://");
  return scheme && origin.find('/', origin.find("//") + 2) == std::string::npos && origin.back() != '/';
}

bool is_access_format(const std::string& format) { return parse_access_format(format).has_value(); }

bool is_channel_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  };
  return !name.empty() && name.size() <= 32 && std::ranges::all_of(name, allowed);
}

bool has_duplicate(std::vector<std::string> names) {
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) != names.end();
}

bool has_user(const std::string& name) { return name.empty() || getpwnam(name.c_str()); }
bool has_group(const std::string& name) { return name.empty() || getgrnam(name.c_str()); }

bool is_dynamic(const S& s) { return s.pool.pm_mode == "dynamic"; }
// INT_MAX for "one per core", which is resolved only at start-up (spare_limits() applies it there).
int max_children(const S& s) { return s.pool.max_children == 0 ? INT_MAX : s.pool.max_children; }
int max_spare_servers(const S& s) {
  return s.pool.max_spare_servers == 0 ? max_children(s) : s.pool.max_spare_servers;
}

bool is_folder(const std::string& path) {
  struct stat status {};
  return path.starts_with('/') && stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool uses_relative_path(const S& s) {
  const std::array files{s.error_log == "stderr" ? std::string() : s.error_log,
                         s.request_log.slowlog,
                         s.request_log.access_log,
                         s.spool.path,
                         s.recorder.database,
                         s.search.index,
                         s.recommend.model,
                         s.train.publish_folder};
  return std::ranges::any_of(files, [](const auto& file) { return !file.empty() && !file.starts_with('/'); });
}

bool is_dependency_name(const std::string& word) {
  return std::ranges::find(kDependencyNames, word) != kDependencyNames.end();
}

bool is_variable_name(const std::string& name) {
  return !name.empty() && name.find('=') == std::string::npos;
}
bool uses_unset_variable(const std::pair<const std::string, std::string>& variable) {
  return variable.second.starts_with('$') && !std::getenv(variable.second.c_str() + 1);
}

constexpr int kReservedDescriptors = 64;  // for Redis, epoll, timers, log and spool

struct Check {
  bool is_error;
  std::array<std::string_view, 2> names;
  bool (*is_violated)(const Settings&);
  std::string_view text;
};

// clang-format off
constexpr std::array kChecks{
    Check{true, {"listen.address"}, [](const S& s) { return !is_listen_address(s.pool.listen); },
          "must be an absolute path of at most 107 bytes, or host:port"},
    Check{true, {"pm.status_listen"},
          [](const S& s) { return !s.pool.status_listen.empty() && !is_listen_address(s.pool.status_listen); },
          "must be an absolute path of at most 107 bytes, host:port, or empty"},
    Check{true, {"pm.status_listen", "listen.address"}, [](const S& s) { return s.pool.status_listen == s.pool.listen; },
          "must differ from listen.address"},
    Check{true, {"listen.owner"}, [](const S& s) { return !has_user(s.pool.listen_owner); }, "names an unknown user"},
    Check{true, {"listen.group"}, [](const S& s) { return !has_group(s.pool.listen_group); }, "names an unknown group"},
    Check{true, {"user"}, [](const S& s) { return !has_user(s.pool.user); }, "names an unknown user"},
    Check{true, {"group"}, [](const S& s) { return !has_group(s.pool.group); }, "names an unknown group"},
    Check{false, {"listen.allowed_clients", "listen.address"},
          [](const S& s) {
            return !s.pool.listen_allowed_clients.empty() && is_unix_path(s.pool.listen) &&
                   (s.pool.status_listen.empty() || is_unix_path(s.pool.status_listen));
          },
          "has no effect on a unix socket; use listen.mode to restrict access"},
    Check{false, {"listen.address", "listen.allowed_clients"},
          [](const S& s) { return is_public_address(s.pool.listen) && s.pool.listen_allowed_clients.empty(); },
          "can be reached from other machines, and a client that connects can claim to be any reader; list nginx's addresses in listen.allowed_clients"},
    Check{true, {"pm.status_path"}, [](const S& s) { return !is_uri_path(s.pool.status_path); }, "must begin with /"},
    Check{true, {"ping.path"}, [](const S& s) { return !is_uri_path(s.pool.ping_path); }, "must begin with /"},
    Check{true, {"ping.path", "pm.status_path"},
          [](const S& s) { return !s.pool.ping_path.empty() && s.pool.ping_path == s.pool.status_path; },
          "and pm.status_path must differ"},
    Check{true, {"ready.require"}, [](const S& s) { return !std::ranges::all_of(s.ready.require, is_dependency_name); },
          "accepts redis, items, index, model and writes"},
    Check{true, {"access.format"}, [](const S& s) { return !is_access_format(s.request_log.access_format); },
          "accepts PHP-FPM's specifiers and %{redis_ms}x, %{round_trips}x, %{route}x, %{request_id}x, %{zone}x: see freshet.toml(5)"},
    Check{false, {"request_slowlog_timeout", "gateway.request_budget"},
          [](const S& s) { return s.request_log.slow_timeout.count() != 0 && s.request_log.slow_timeout > s.gateway.bulk_budget; },
          "exceeds gateway.bulk_budget, so no request can be logged as slow"},
    Check{true, {"rlimit_files", "pm.max_in_flight"},
          [](const S& s) { return s.pool.rlimit_files != 0 && s.pool.rlimit_files < s.pool.max_in_flight + kReservedDescriptors; },
          "must be 0 or at least pm.max_in_flight + 64"},
    Check{true, {"pm.min_spare_servers", "pm.max_children"},
          [](const S& s) { return is_dynamic(s) && s.pool.min_spare_servers > max_children(s); },
          "must not exceed pm.max_children"},
    Check{true, {"pm.max_spare_servers", "pm.max_children"},
          [](const S& s) { return is_dynamic(s) && s.pool.max_spare_servers > max_children(s); },
          "must not exceed pm.max_children"},
    Check{true, {"pm.max_spare_servers", "pm.min_spare_servers"},
          [](const S& s) { return is_dynamic(s) && max_spare_servers(s) < s.pool.min_spare_servers; },
          "must be 0 or at least pm.min_spare_servers"},
    Check{true, {"pm.start_servers", "pm.max_spare_servers"},
          [](const S& s) {
            return is_dynamic(s) && s.pool.start_servers != 0 &&
                   (s.pool.start_servers < s.pool.min_spare_servers || s.pool.start_servers > max_spare_servers(s));
          },
          "must be 0 or between pm.min_spare_servers and pm.max_spare_servers"},
    Check{true, {"chdir"}, [](const S& s) { return !s.pool.chdir.empty() && !is_folder(s.pool.chdir); },
          "must be the absolute path of an existing folder"},
    Check{true, {"chdir"}, [](const S& s) { return !s.pool.chdir.empty() && uses_relative_path(s); },
          "requires absolute paths for all files, since relative paths would mean different files for the master and its workers"},
    Check{true, {"env"},
          [](const S& s) { return std::ranges::any_of(s.pool.env, [](const auto& one) { return !is_variable_name(one.first); }); },
          "must contain names without ="},
    Check{false, {"env"}, [](const S& s) { return std::ranges::any_of(s.pool.env, uses_unset_variable); },
          "refers to a variable that is not set for the master; it will be empty"},

    Check{true, {"redis.timeout", "gateway.request_budget"},
          [](const S& s) { return s.redis.timeout >= s.gateway.request_budget; },
          "must be below gateway.request_budget, to leave time for a reply when Redis is slow"},
    Check{true, {"gateway.request_budget", "request_terminate_timeout"},
          [](const S& s) {
            return s.pool.request_terminate_timeout.count() != 0 && s.gateway.request_budget >= s.pool.request_terminate_timeout;
          },
          "must be below request_terminate_timeout, after which the worker is killed"},
    Check{true, {"gateway.request_budget", "gateway.bulk_budget"},
          [](const S& s) { return s.gateway.request_budget > s.gateway.bulk_budget; },
          "must not exceed gateway.bulk_budget"},
    Check{true, {"gateway.max_body_bytes", "gateway.max_bulk_body_bytes"},
          [](const S& s) { return s.gateway.max_body_bytes > s.gateway.max_bulk_body_bytes; },
          "must not exceed gateway.max_bulk_body_bytes"},
    Check{true, {"redis.reconnect_min", "redis.reconnect_max"},
          [](const S& s) { return s.redis.reconnect_min > s.redis.reconnect_max; }, "must not exceed redis.reconnect_max"},
    Check{true, {"redis.key_prefix"}, [](const S& s) { return s.redis.key_prefix.find_first_of("{}") != std::string::npos; },
          "must not contain braces: Redis Cluster would take them for the hash tag that determines a key's slot"},
    Check{true, {"redis.partitions"}, [](const S& s) { return (s.redis.partitions & (s.redis.partitions - 1)) != 0; },
          "must be a power of two: 1, 2, 4, 8, 16, 32 or 64"},
    Check{true, {"redis.sentinels"},
          [](const S& s) { return !std::ranges::all_of(s.redis.sentinels, is_host_and_port); },
          "must contain hosts with a port, such as \"192.0.2.1:26379\""},
    Check{true, {"redis.sentinel_master", "redis.sentinels"},
          [](const S& s) { return s.redis.sentinel_master.empty() != s.redis.sentinels.empty(); },
          "and redis.sentinels must be set together"},
    Check{true, {"redis.breaker_open", "redis.reconnect_max"},
          [](const S& s) { return s.redis.breaker_open > s.redis.reconnect_max; }, "must not exceed redis.reconnect_max"},

    Check{true, {"hot.pv_weight", "hot.uv_weight"},
          [](const S& s) { return s.engagement.pv_weight + s.engagement.uv_weight <= 0; },
          "and hot.uv_weight cannot both be 0, since articles without dwell time would have no score"},
    Check{true, {"hot.dwell_prior", "hot.dwell_cap"},
          [](const S& s) { return s.engagement.dwell_prior_ms > static_cast<double>(s.engagement.dwell_cap_ms); },
          "must not exceed hot.dwell_cap"},
    Check{true, {"hot.session_window", "hot.counter_ttl"},
          [](const S& s) { return s.engagement.session_window > s.engagement.counter_ttl; },
          "must not exceed hot.counter_ttl"},
    Check{true, {"views.pv_weight"}, [](const S& s) { return s.views.pv_weight + s.views.uv_weight <= 0; },
          "and views.uv_weight cannot both be 0"},
    Check{true, {"views.dedup_window", "views.counter_ttl"},
          [](const S& s) { return s.views.dedup_window > s.views.counter_ttl; }, "must not exceed views.counter_ttl"},
    Check{false, {"views.gamma"}, [](const S& s) { return s.views.gamma < 1.3 || s.views.gamma > 1.8; },
          "is outside 1.3..1.8: the list will change too slowly or too quickly"},
    Check{false, {"views.base_hours"}, [](const S& s) { return s.views.base_hours < 1 || s.views.base_hours > 3; },
          "is outside 1..3 hours: the first minutes of an article will have too much or too little weight"},
    Check{true, {"trending.half_life"}, [](const S& s) { return std::ranges::find(kTrendingHalfLives, s.trending.half_life) == kTrendingHalfLives.end(); },
          "must be 5m, 15m, 1h, 6h or 24h"},
    Check{true, {"list.rebuild_interval", "list.ttl"}, [](const S& s) { return s.list.rebuild_interval > s.list.ttl; },
          "must not exceed list.ttl"},
    Check{true, {"list.worker_ttl", "list.rebuild_interval"}, [](const S& s) { return s.list.worker_ttl > s.list.rebuild_interval; },
          "must not exceed list.rebuild_interval"},

    Check{true, {"interactions.post_weight", "interactions.view_weight"},
          [](const S& s) {
            return std::min(s.interactions.post_weight, s.interactions.reply_weight) <= s.interactions.view_weight;
          },
          "and interactions.reply_weight must be above interactions.view_weight"},

    Check{true, {"recommend.model_from"},
          [](const S& s) {
            const std::string& from = s.recommend.model_source;
            return !from.empty() && !from.starts_with("unix:///") &&
                   (!from.starts_with("http://") || from.find('@') != std::string::npos);
          },
          "must be http://host:port or unix:///path, without user and password"},

    Check{true, {"waterfall.channels"},
          [](const S& s) { return !std::ranges::all_of(s.timeline.channels, is_channel_name) || has_duplicate(s.timeline.channels); },
          "must contain distinct names of 1 to 32 characters: a-z, 0-9, - and _"},
    Check{true, {"waterfall.follow_channel", "waterfall.channels"},
          [](const S& s) {
            return !s.timeline.follow_channel.empty() && std::ranges::count(s.timeline.channels, s.timeline.follow_channel) == 0;
          },
          "must be one of waterfall.channels"},
    Check{false, {"waterfall.ttl", "hot.counter_ttl"},
          [](const S& s) { return s.timeline.ttl > s.engagement.counter_ttl; },
          "exceeds hot.counter_ttl: an item that was deleted long ago may appear in a timeline, without its title"},
    Check{false, {"fanout.outbox", "waterfall.max_items"},
          [](const S& s) { return s.fanout.outbox_size < s.timeline.max_items; },
          "is below waterfall.max_items: unfollowing an author may leave older items in a timeline"},

    Check{true, {"identity.token_keys", "identity.mode"},
          [](const S& s) { return s.identity.mode == "token" && s.identity.token_key_files.empty(); },
          "must contain a key if identity.mode is token"},
    Check{true, {"identity.mode", "listen.address"},
          [](const S& s) { return s.identity.mode == "open" && is_public_address(s.pool.listen) && !s.identity.open_public; },
          "open trusts every client of listen.address, which is not loopback; set identity.open_public = true to allow it"},
    Check{false, {"identity.mode", "listen.address"},
          [](const S& s) { return s.identity.mode == "open" && (is_public_address(s.pool.listen) || !s.identity.open_public); },
          "open trusts the ids in every request; use it only on loopback or for trials"},
    Check{true, {"spool.path"}, [](const S& s) { return s.spool.path.empty(); }, "must not be empty"},
    Check{true, {"recorder.database"}, [](const S& s) { return s.recorder.enabled && s.recorder.database.empty(); },
          "must not be empty unless recorder.enabled is false"},
    Check{true, {"search.index"}, [](const S& s) { return s.recorder.enabled && s.search.index.empty(); },
          "must not be empty unless recorder.enabled is false"},
    Check{true, {"http.internal_hosts"}, [](const S& s) { return !std::ranges::all_of(s.http.internal_hosts, is_host_name); },
          "must contain names without scheme and port, such as feed.internal"},
    Check{true, {"http.cors_origins"}, [](const S& s) { return !std::ranges::all_of(s.http.cors_origins, is_origin); },
          "must contain origins without a path, such as \"https://www.example.org\""},
};
// clang-format on

// A warning, since other users than the service's read its settings, too. The service itself does
// not start without the file.
void check_file(std::string_view directive, const std::string& path, std::vector<Finding>& findings) {
  const int error = path.empty() || is_hidden_credential(path) ? 0 : read_access_error(path);
  if (error == 0) return;
  const std::string text = std::string(directive) + ": " + path + ": cannot be read: " + std::strerror(error);
  findings.push_back({false, {directive}, text});
}

void check_files(const Settings& settings, std::vector<Finding>& findings) {
  check_file("redis.password_file", settings.redis.password_file, findings);
  check_file("redis.sentinel_password_file", settings.redis.sentinel_password_file, findings);
  check_file("identity.salt_file", settings.identity.salt_file, findings);
  for (const auto& [kid, path] : settings.identity.token_key_files)
    check_file("identity.token_keys", path, findings);
  for (const auto& [kid, path] : settings.identity.internal_key_files)
    check_file("identity.internal_keys", path, findings);
  check_file("clients.deny_file", settings.clients.deny_file, findings);
  check_file("clients.allow_file", settings.clients.allow_file, findings);
}

}  // namespace

bool is_public_address(std::string_view address) {
  if (is_unix_path(address)) return false;
  const std::string_view host = host_of(address);
  return host != "localhost" && host != "[::1]" && !host.starts_with("127.");
}

std::vector<Finding> check_settings(const Settings& settings, int somaxconn) {
  std::vector<Finding> findings;
  for (const Check& check : kChecks) {
    if (!check.is_violated(settings)) continue;
    Finding finding{check.is_error, {}, std::string(check.names[0]) + " " + std::string(check.text)};
    std::ranges::copy_if(check.names, std::back_inserter(finding.names), [](auto n) { return !n.empty(); });
    findings.push_back(std::move(finding));
  }
  check_files(settings, findings);
  if (const auto clients = NetworkSet::parse(settings.pool.listen_allowed_clients); !clients)
    findings.push_back(
        {true,
         {"listen.allowed_clients"},
         "listen.allowed_clients must contain addresses and networks, such as \"192.0.2.7\" and "
         "\"10.0.0.0/8\": " +
             clients.error().detail});
  if (somaxconn > 0 && settings.pool.listen_backlog > somaxconn)
    findings.push_back({false,
                        {"listen.backlog"},
                        "listen.backlog " + std::to_string(settings.pool.listen_backlog) +
                            " is limited by net.core.somaxconn = " + std::to_string(somaxconn)});
  return findings;
}

}  // namespace freshet::config
