// Checks the parts of nginx's configuration that concern Freshet.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <map>
#include <regex>

#include "core/redis/fields.h"
#include "scripts/ctl/doctor/doctor.h"

extern char** environ;

namespace freshet::ctl {
namespace {

constexpr std::int64_t kDefaultConnections = 512;          // nginx's default worker_connections
constexpr std::int64_t kDefaultDescriptors = 1024;         // default RLIMIT_NOFILE of a process
constexpr std::uint64_t kDefaultMaxBodyBytes = 1UL << 20;  // nginx's default client_max_body_size

// Arguments of every occurrence of a directive, in the order of the dump.
std::vector<std::string> values_of(const std::string& dump, const std::string& directive) {
  const std::regex line("(?:^|[\\n;{}])[ \\t]*" + directive + "[ \\t]+([^;\\n]+);");
  std::vector<std::string> out;
  for (std::sregex_iterator at(dump.begin(), dump.end(), line), end; at != end; ++at) out.push_back((*at)[1]);
  return out;
}

std::int64_t number_value(const std::string& dump, const std::string& directive, std::int64_t fallback) {
  const auto values = values_of(dump, directive);
  return values.empty() ? fallback : redis::parse<std::int64_t>(values.back()).value_or(fallback);
}

// Parses "16k", "8m", "1g" or bytes. 0 means unlimited.
std::uint64_t parse_size(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    const char unit = static_cast<char>(text.back() | 0x20);
    shift = unit == 'k' ? 10 : unit == 'm' ? 20 : unit == 'g' ? 30 : 0;
  }
  if (shift > 0) text.remove_suffix(1);
  const auto number = redis::parse_or_zero<std::uint64_t>(text);
  return number == 0 ? UINT64_MAX : number << shift;
}

void evaluate_connections(const std::string& dump, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.connections";
  const std::int64_t connections = number_value(dump, "worker_connections", kDefaultConnections);
  const std::int64_t files = number_value(dump, "worker_rlimit_nofile", kDefaultDescriptors);
  // Each request uses two: the client's connection and the upstream one.
  if (files < 2 * connections)
    return out.warn(kCheck,
                    fmt::format("worker_connections {} needs {} file descriptors; a worker has {}",
                                connections, 2 * connections, files),
                    fmt::format("set `worker_rlimit_nofile {};` at the top of nginx.conf", 4 * connections));
  out.ok(kCheck, fmt::format("worker_connections {}, {} file descriptors", connections, files));
}

void evaluate_body_size(const std::string& dump, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.body_size";
  std::uint64_t largest = 0;
  for (const std::string& text : values_of(dump, "client_max_body_size"))
    largest = std::max(largest, parse_size(text));
  if (largest == 0) largest = kDefaultMaxBodyBytes;
  const std::size_t required = settings.gateway.max_bulk_body_bytes;
  if (largest < required)
    return out.warn(
        kCheck,
        fmt::format("the largest client_max_body_size is {} bytes, but gateway.max_bulk_body_bytes is {}",
                    largest, required),
        fmt::format("set `client_max_body_size {};` in the internal server's bulk location", required));
  out.ok(kCheck, fmt::format("bulk bodies of {} bytes are accepted", required));
}

// Directives of the innermost block around `at` (or of the file in the dump), without those of
// nested blocks.
std::string enclosing_block(std::string_view dump, std::size_t at) {
  constexpr std::string_view kFile = "# configuration file ";
  std::size_t from = at;
  for (int depth = 0; from > 0 && depth >= 0 && !dump.substr(from).starts_with(kFile); --from)
    depth += dump[from - 1] == '}' ? 1 : dump[from - 1] == '{' ? -1 : 0;
  std::string out;
  const std::string_view rest = dump.substr(std::min(from + 1, dump.size()));
  int depth = 0;
  for (std::size_t i = 0; i < rest.size() && depth >= 0 && !rest.substr(i).starts_with(kFile); ++i) {
    depth += rest[i] == '{' ? 1 : rest[i] == '}' ? -1 : 0;
    if (depth == 0) out += rest[i] == '}' ? ';' : rest[i];
  }
  return out;
}

// Returns true if a file included by `block` sets the parameter.
bool includes_parameter(const std::string& dump, const std::string& block, const std::regex& parameter) {
  for (const std::string& path : values_of(block, "include")) {
    const std::size_t head = dump.find("# configuration file " + path + ":");
    if (head == std::string::npos) continue;
    const std::size_t end = dump.find("\n# configuration file ", head);
    const std::string text = dump.substr(head, end == std::string::npos ? end : end - head);
    if (std::regex_search(text, parameter)) return true;
  }
  return false;
}

// A block with its own fastcgi_param inherits none, so FRESHET_SITE must be set or included next to
// each FRESHET_ZONE.
void evaluate_site(const std::string& dump, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.site";
  const std::regex zone("\n[ \t]*fastcgi_param[ \t]+FRESHET_ZONE[ \t]+(\\w+)");
  const std::regex site("\n[ \t]*fastcgi_param[ \t]+FRESHET_SITE[ \t]");
  int blocks = 0;
  for (std::sregex_iterator at(dump.begin(), dump.end(), zone), end; at != end; ++at, ++blocks) {
    const std::string block = enclosing_block(dump, static_cast<std::size_t>(at->position()) + 1);
    if (std::regex_search("\n" + block, site) || includes_parameter(dump, block, site)) continue;
    return out.error(kCheck,
                     fmt::format("a block with FRESHET_ZONE {} does not set FRESHET_SITE: browsers' POST "
                                 "requests to it get 403 origin_not_allowed",
                                 (*at)[1].str()),
                     "add `include /etc/nginx/freshet/freshet-params.conf;` next to that FRESHET_ZONE");
  }
  for (const std::string& value : values_of(dump, "fastcgi_param[ \t]+FRESHET_SITE")) {
    if (value.find("$http_host") != std::string::npos)
      return out.warn(kCheck,
                      "FRESHET_SITE contains $http_host, which is empty over HTTP/3: writes from the site's "
                      "own pages get 403 foreign_origin",
                      "set `fastcgi_param FRESHET_SITE $scheme://$freshet_host if_not_empty;` "
                      "(freshet-params.conf)");
  }
  if (blocks > 0) out.ok(kCheck, fmt::format("FRESHET_SITE is set in all {} blocks", blocks));
}

// The upstream block that contains the first `server`; empty: none.
std::string upstream_block(const std::string& dump, const std::string& server) {
  const std::size_t at = dump.find("server " + server);
  return at == std::string::npos ? std::string() : enclosing_block(dump, at);
}

// Parses "5s", "1h" or "75" as nginx does. nullopt: a combination of units.
std::optional<seconds> parse_duration(const std::string& text) {
  if (text.ends_with("ms")) return seconds(1);
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto number = redis::parse<std::int64_t>(text.substr(0, digits));
  const std::string_view unit = std::string_view(text).substr(digits);
  if (!number || unit.size() > 1) return std::nullopt;
  const int factor = unit == "d" ? 86400 : unit == "h" ? 3600 : unit == "m" ? 60 : 1;
  return seconds(*number * factor);
}

// Connections that nginx keeps open must end within process_control_timeout, or a draining worker
// cannot finish.
void evaluate_keepalive(const std::string& upstream, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.keepalive";
  if (values_of(upstream, "keepalive").empty()) return;
  const auto value = [&](const char* directive, const char* fallback) {
    const auto values = values_of(upstream, directive);
    return parse_duration(values.empty() ? fallback : values.back());
  };
  const auto use = value("keepalive_time", "1h"), idle = value("keepalive_timeout", "60s");
  if (!use || !idle) return out.skipped(kCheck, "a time combines several units");
  const seconds longest = *use + *idle, limit = settings.pool.process_control_timeout;
  const std::string message =
      fmt::format("nginx keeps a connection for up to {} s; process_control_timeout is {} s", longest.count(),
                  limit.count());
  if (longest >= limit)
    return out.warn(
        kCheck, message + ": a reload can abort requests",
        "set `keepalive_time 5s; keepalive_timeout 5s;` in the upstream freshet (freshet-http.conf)");
  out.ok(kCheck, message);
}

// Checks that slow senders are limited, and that no limit is shared by all clients, where a few
// could use it up.
void evaluate_queue(const std::string& dump, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.queue";
  const auto is_limited = [&](const std::string& zone) {
    return !values_of(dump, "limit_conn[ \t]+" + zone).empty();
  };
  if (is_limited("freshet_public"))
    return out.warn(
        kCheck, "limit_conn freshet_public is shared by all clients: a few slow ones can lock out the others",
        "install this version's freshet-locations.conf and freshet-http.conf");
  struct RequiredLimit {
    std::string_view zone;
    std::string limit;
  };
  for (const auto& [zone, limit] :
       {RequiredLimit{"public", "freshet_bodies"}, RequiredLimit{"public", "freshet_body_networks"},
        RequiredLimit{"internal", "freshet_internal"}}) {
    if (!is_limited(limit) && dump.find("FRESHET_ZONE " + std::string(zone)) != std::string::npos)
      return out.warn(
          kCheck, fmt::format("limit_conn {} is not set: the number of waiting requests is unlimited", limit),
          "set it as in freshet-locations.conf and freshet-internal.conf");
  }
  std::int64_t max_requests = 0;
  for (const std::string& each : values_of(dump, "limit_conn[ \t]+freshet_internal"))
    max_requests = std::max(max_requests, redis::parse_or_zero<std::int64_t>(each));
  const std::string message =
      fmt::format("the internal server admits {} concurrent requests; listen.backlog is {}", max_requests,
                  settings.pool.listen_backlog);
  if (max_requests > settings.pool.listen_backlog)
    return out.warn(kCheck, message + ": a full queue causes 502 responses",
                    "lower limit_conn freshet_internal, or raise listen.backlog and net.core.somaxconn");
  out.ok(kCheck, message);
}

// A server with an access_log of its own does not inherit the one that logs the cause of a 502.
void evaluate_failure_log(const std::string& dump, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.failures";
  const std::size_t at = dump.find("freshet-locations.conf;");
  if (at == std::string::npos) return;
  const auto logs = values_of(enclosing_block(dump, at), "access_log");
  const auto logs_failures = [](const std::string& log) { return log.find("freshet_failure") != log.npos; };
  if (!logs.empty() && std::ranges::none_of(logs, logs_failures))
    return out.warn(kCheck, "the server with Freshet's public routes does not log why a request got 502",
                    "add `access_log /var/log/nginx/freshet-error.log freshet_failure if=$freshet_failure;` "
                    "to that server");
  out.ok(kCheck, "the cause of a 502 is logged");
}

// The last `bytes` of a file, without its first, possibly incomplete line.
std::string read_tail(const std::string& path, std::streamoff bytes) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(0, std::ios::end);
  const std::streamoff size = file.tellg();
  if (!file || size <= 0) return {};
  file.seekg(std::max<std::streamoff>(0, size - bytes));
  std::string text(static_cast<std::size_t>(std::min(bytes, size)), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return size > bytes ? text.substr(std::min(text.find('\n'), text.size())) : text;
}

// Access logs of the public server: its own, otherwise those of the http block.
std::vector<std::string> public_access_logs(const std::string& dump) {
  std::vector<std::string> paths;
  for (const std::string_view where : {"freshet-locations.conf;", "http {"}) {
    const std::size_t at = dump.find(where);
    if (at == std::string::npos) continue;
    const std::string block = enclosing_block(dump, where.ends_with('{') ? at + where.size() : at);
    for (const std::string& value : values_of(block, "access_log")) {
      if (value.starts_with('/') && value.find("freshet_failure") == std::string::npos)
        paths.push_back(value.substr(0, value.find_first_of(" \t")));
    }
    if (!paths.empty()) return paths;
  }
  return paths;
}

// The network of the client in a line of the format `freshet` or `combined`: the IPv4 /24 or IPv6
// /48. Empty: the line has another format.
std::string network_in_line(std::string_view line) {
  constexpr std::string_view kMember = "\"address\":\"";
  const std::size_t member = line.find(kMember);
  if (member != line.npos) line.remove_prefix(member + kMember.size());
  const std::string_view address = line.substr(0, line.find_first_not_of("0123456789abcdef.:"));
  if (address.find(':') == address.npos) {
    const std::size_t dot = address.rfind('.');
    return dot == address.npos ? std::string() : std::string(address.substr(0, dot)) + ".0/24";
  }
  std::size_t end = 0;
  for (int group = 0; group < 3 && end != address.npos; ++group) end = address.find(':', end + 1);
  return std::string(address.substr(0, end)) + "::/48";
}

}  // namespace

void evaluate_networks(std::string_view log, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.networks";
  constexpr std::int64_t kMinRequests = 1000, kMaxPercent = 95;
  std::map<std::string, std::int64_t> requests;
  std::int64_t total = 0;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    const std::string network = network_in_line(log.substr(0, end));
    log.remove_prefix(std::min(end + 1, log.size()));
    if (network.empty()) continue;
    ++requests[network];
    ++total;
  }
  if (total < kMinRequests)
    return out.ok(kCheck, fmt::format("the public server's access log has only {} requests", total));
  const auto largest = std::ranges::max_element(requests, {}, [](const auto& each) { return each.second; });
  const std::int64_t percent = largest->second * 100 / total;
  const std::string message =
      fmt::format("{} % of the last {} requests come from one network, {}", percent, total, largest->first);
  if (percent < kMaxPercent) return out.ok(kCheck, message);
  out.warn(kCheck, message + ": if it is a proxy, all its clients share one limit (429)",
           "if it is your proxy, set `set_real_ip_from` to its addresses (freshet-public.conf)");
}

std::optional<std::string> nginx_user(const std::string& dump) {
  const auto values = values_of(dump, "user");
  if (values.empty()) return std::nullopt;
  return values.front().substr(0, values.front().find_first_of(" \t"));
}

void evaluate_nginx(const std::string& dump, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.upstream";
  const std::string& listen = settings.pool.listen;
  const std::string address = listen.starts_with('/') ? "unix:" + listen : listen;
  if (dump.find("FRESHET_ZONE") == std::string::npos)
    return out.error(
        kCheck, "nginx's configuration has no Freshet location",
        "include /etc/nginx/freshet/freshet-http.conf in `http` and freshet-locations.conf in your `server`");
  if (dump.find(address) == std::string::npos)
    return out.error(kCheck, fmt::format("nginx does not pass requests to {}", address),
                     fmt::format("set `server {};` in the upstream freshet (freshet-http.conf)", address));
  out.ok(kCheck, "nginx passes requests to " + address);
  evaluate_connections(dump, out);
  evaluate_body_size(dump, settings, out);
  evaluate_site(dump, out);
  evaluate_keepalive(upstream_block(dump, address), settings, out);
  evaluate_queue(dump, settings, out);
  evaluate_failure_log(dump, out);
}

void check_networks(const std::string& dump, Diagnoses& out) {
  constexpr std::streamoff kBytes = 1 << 20;
  std::string log;
  for (const std::string& path : public_access_logs(dump)) log += read_tail(path, kBytes);
  evaluate_networks(log, out);
}

Result<std::string> nginx_dump(const std::string& program, const std::string& state) {
  std::vector<std::string> words{program, "-T", "-q"};
  if (!state.empty()) {
    const auto folder = std::filesystem::absolute(state);  // nginx resolves -c relative to -p
    words.insert(words.end(), {"-p", folder, "-c", folder / "etc/nginx/nginx.conf"});
  }
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return fail(ErrorCode::kInternal, "pipe");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int started = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string dump;
  std::array<char, 65536> bytes{};
  for (ssize_t got = 0; started == 0 && (got = read(ends[0], bytes.data(), bytes.size())) > 0;)
    dump.append(bytes.data(), static_cast<std::size_t>(got));
  close(ends[0]);
  if (started != 0) return fail(ErrorCode::kNotFound, "no_nginx", {}, program + " is not installed");
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0)
    return fail(ErrorCode::kUnavailable, "nginx_refused", {},
                program + " -T failed: its configuration is invalid or readable only for root");
  return dump;
}

}  // namespace freshet::ctl
