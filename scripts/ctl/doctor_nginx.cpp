// The doctor's look at nginx: what its configuration says of us.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <regex>

#include "core/store/fields.h"
#include "scripts/ctl/doctor.h"

extern char** environ;

namespace freshet::ctl {
namespace {

constexpr std::int64_t kDefaultConnections = 512;   // nginx' own worker_connections
constexpr std::int64_t kDefaultDescriptors = 1024;  // what a process gets that asks for nothing
constexpr std::uint64_t kDefaultBody = 1UL << 20;   // nginx' own client_max_body_size

// The arguments of every such directive, in the order of the dump.
std::vector<std::string> values_of(const std::string& dump, const std::string& directive) {
  const std::regex line("(?:^|[\\n;{}])[ \\t]*" + directive + "[ \\t]+([^;\\n]+);");
  std::vector<std::string> out;
  for (std::sregex_iterator at(dump.begin(), dump.end(), line), end; at != end; ++at) out.push_back((*at)[1]);
  return out;
}

std::int64_t number_of(const std::string& dump, const std::string& directive, std::int64_t fallback) {
  const auto values = values_of(dump, directive);
  return values.empty() ? fallback : store::parse<std::int64_t>(values.back()).value_or(fallback);
}

// "16k", "8m", "1g" or bytes; 0 is without a bound.
std::uint64_t bytes_of(std::string_view text) {
  int shift = 0;
  if (!text.empty()) {
    const char unit = static_cast<char>(text.back() | 0x20);
    shift = unit == 'k' ? 10 : unit == 'm' ? 20 : unit == 'g' ? 30 : 0;
  }
  if (shift > 0) text.remove_suffix(1);
  const auto number = store::parse_or_zero<std::uint64_t>(text);
  return number == 0 ? UINT64_MAX : number << shift;
}

void judge_connections(const std::string& dump, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.connections";
  const std::int64_t connections = number_of(dump, "worker_connections", kDefaultConnections);
  const std::int64_t files = number_of(dump, "worker_rlimit_nofile", kDefaultDescriptors);
  // A request holds two: the client's and ours.
  if (files < 2 * connections)
    return out.warn(kCheck,
                    fmt::format("worker_connections {} need {} descriptors, a worker has {}", connections,
                                2 * connections, files),
                    fmt::format("worker_rlimit_nofile {}; at the top of nginx.conf", 4 * connections));
  out.ok(kCheck, fmt::format("worker_connections {}, {} descriptors", connections, files));
}

void judge_bodies(const std::string& dump, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.body_size";
  std::uint64_t largest = 0;
  for (const std::string& text : values_of(dump, "client_max_body_size"))
    largest = std::max(largest, bytes_of(text));
  if (largest == 0) largest = kDefaultBody;
  const std::size_t wanted = settings.gateway.max_bulk_body_bytes;
  if (largest < wanted)
    return out.warn(
        kCheck,
        fmt::format("the largest client_max_body_size is {} bytes, gateway.max_bulk_body_bytes is {}",
                    largest, wanted),
        fmt::format("client_max_body_size {}; in the internal server's bulk location", wanted));
  out.ok(kCheck, fmt::format("bulk bodies of {} bytes pass", wanted));
}

}  // namespace

std::optional<std::string> nginx_user(const std::string& dump) {
  const auto values = values_of(dump, "user");
  if (values.empty()) return std::nullopt;
  return values.front().substr(0, values.front().find_first_of(" \t"));
}

void judge_nginx(const std::string& dump, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "nginx.upstream";
  const std::string& listen = settings.pool.listen;
  const std::string wanted = listen.starts_with('/') ? "unix:" + listen : listen;
  if (dump.find("FRESHET_ZONE") == std::string::npos)
    return out.error(
        kCheck, "nginx' configuration has no location of Freshet",
        "include /etc/nginx/freshet/freshet-http.conf in http, freshet-locations.conf in your server");
  if (dump.find(wanted) == std::string::npos)
    return out.error(kCheck, fmt::format("nginx passes nothing to {}", wanted),
                     fmt::format("`server {};` in the upstream freshet (freshet-http.conf)", wanted));
  out.ok(kCheck, "nginx passes requests to " + wanted);
  judge_connections(dump, out);
  judge_bodies(dump, settings, out);
}

Result<std::string> nginx_dump(const std::string& program, const std::string& state) {
  std::vector<std::string> words{program, "-T", "-q"};
  if (!state.empty()) words.insert(words.end(), {"-p", state, "-c", state + "/etc/nginx/nginx.conf"});
  std::vector<char*> argv;
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
  if (started != 0) return fail(ErrorCode::kNotFound, "no_nginx", {}, program + " is not there");
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0)
    return fail(ErrorCode::kUnavailable, "nginx_refused", {},
                program + " -T failed: its configuration is wrong, or only root may read it");
  return dump;
}

}  // namespace freshet::ctl
