#include "scripts/ctl/doctor/doctor.h"

#include <sys/stat.h>
#include <unistd.h>

#include "core/config/config.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/doctor/status_text.h"

namespace freshet::ctl {
namespace {

// Adds a finding for each line of the configuration check's output (freshetd -t).
void for_each_line(const std::string& lines, void (*add)(std::string, Diagnoses&), Diagnoses& out) {
  for (std::size_t from = 0; from < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', from), lines.size());
    if (end > from) add(lines.substr(from, end - from), out);
    from = end + 1;
  }
}

void add_config_warning(std::string line, Diagnoses& out) {
  const bool backlog = line.find("net.core.somaxconn") != std::string::npos;
  out.warn(backlog ? "config.backlog" : "config", std::move(line),
           backlog ? "run `sysctl -w net.core.somaxconn=4096` and add it to /etc/sysctl.d/freshet.conf"
                   : "change that directive; freshet.toml documents it");
}

void add_config_error(std::string line, Diagnoses& out) {
  out.error("config", std::move(line), "correct that line, then check the file with `freshetd -t`");
}

std::optional<Settings> read_config(const Target& target, Diagnoses& out) {
  std::string path = config_path(target);
  if (path.empty()) path = kDefaultConfigPath;
  const auto loaded = load_config(path);
  if (!loaded) {
    for_each_line(loaded.error().detail, add_config_error, out);
    return std::nullopt;
  }
  for (const std::string& warning : loaded->warnings) for_each_line(warning, add_config_warning, out);
  if (loaded->warnings.empty()) out.ok("config", path);
  check_config(loaded->settings, path, out);
  return loaded->settings;
}

std::string fix_for(const Error& error) {
  if (error.reason == "redis_noauth") return "set redis.username and redis.password_file to Redis' account";
  if (error.reason == "bad_secret") return "make redis.password_file readable, or run as root";
  return "start the service of Redis or Valkey, or correct redis.url; a socket must be writable for the "
         "service (group redis or valkey)";
}

void check_items(redis::BlockingRedis& redis, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.items";
  if (!settings.recorder.enabled)
    return out.skipped(kCheck, "the recorder runs on another host (recorder.enabled = false)");
  const auto database = database::Database::open(settings.recorder.database, database::Database::Mode::kRead);
  if (!database) return out.skipped(kCheck, database.error().detail);  // files.database reports the details
  const auto facts = collect_item_facts(redis, **database, settings);
  if (!facts) return out.skipped(kCheck, facts.error().detail);
  evaluate_items(*facts, out);
}

void check_redis_server(const Target& target, const Settings& settings, Diagnoses& out) {
  const auto endpoint = redis_endpoint(target, settings);
  if (!endpoint) return out.error("redis", endpoint.error().detail, fix_for(endpoint.error()));
  redis::BlockingRedis redis(*endpoint, kRedisTimeout, {});
  const auto facts = collect_redis_facts(redis, settings);
  if (!facts) {
    const Error error = with_redis_address(facts.error(), *endpoint);
    out.error("redis", error.detail, fix_for(error));
    return out.skipped("redis.settings", "Redis does not answer");
  }
  out.ok("redis", redis::to_string(*endpoint));
  evaluate_redis(*facts, settings, out);
  if (endpoint->is_cluster()) {
    if (const auto cluster =
            collect_cluster_facts(redis, *endpoint, redis::Keys(settings.redis).partition_count()))
      evaluate_cluster(*cluster, out);
    else
      out.skipped("redis.cluster", cluster.error().detail);
  }
  check_items(redis, settings, out);
}

// Logs in with the service's own account, even when another one runs the other checks.
void check_account(const Target& target, const Settings& settings, Diagnoses& out) {
  constexpr std::string_view kCheck = "redis.account";
  const auto service = service_endpoint(target, settings);
  if (!service) return out.skipped(kCheck, service.error().detail);
  const auto facts = collect_account_facts(*service, settings);
  if (facts) return evaluate_account(*facts, out);
  if (facts.error().reason != "redis_noauth" && facts.error().reason != "redis_noperm")
    return out.skipped(kCheck, facts.error().detail);
  out.error(kCheck, "Redis rejects the service's account: " + facts.error().detail, fix_for(facts.error()));
}

// The account that the service runs as.
std::optional<Account> service_account(const DoctorOptions& options, const Settings& settings,
                                       Diagnoses& out) {
  const std::string& name = options.user.empty() ? settings.pool.user : options.user;
  if (!name.empty()) {
    auto account = find_account(name);
    if (!account)
      out.error("user", "there is no user " + name, "run systemd-sysusers or adduser --system " + name);
    return account;
  }
  const auto folder = std::filesystem::path(settings.recorder.database).parent_path();
  struct stat owned {};
  if (stat(folder.c_str(), &owned) == 0) return account_by_uid(owned.st_uid);
  return account_by_uid(geteuid());
}

// Returns nginx's account if its configuration could be read.
std::optional<Account> check_nginx(const DoctorOptions& options, const Target& target,
                                   const Settings& settings, Diagnoses& out) {
  if (options.nginx.empty()) {
    out.skipped("nginx", "disabled by --nginx ''");
    return std::nullopt;
  }
  const auto dump = nginx_dump(options.nginx, target.state);
  if (!dump) {
    out.skipped("nginx", dump.error().detail);
    return std::nullopt;
  }
  evaluate_nginx(*dump, settings, out);
  check_networks(*dump, out);
  const auto user = nginx_user(*dump);
  return user ? find_account(*user) : std::nullopt;
}

}  // namespace

Result<int> run_doctor(const DoctorOptions& options, const Target& target) {
  Diagnoses out;
  if (const auto settings = read_config(target, out)) {
    check_redis_server(target, *settings, out);
    check_account(target, *settings, out);
    if (const auto service = service_account(options, *settings, out))
      check_files(*settings, *service, wall_now(), out);
    check_backups(options.backups, wall_now(), out);
    check_socket(*settings, check_nginx(options, target, *settings, out), out);
    check_status_socket(*settings, out);
  }
  if (options.json) {
    print_json_line(out.json());
  } else {
    ctl::print("{}{}, {}\n", out.text(), count_text(out.count(Severity::kError), "error"),
               count_text(out.count(Severity::kWarning), "warning"));
  }
  return out.count(Severity::kError) > 0 ? 1 : 0;
}

}  // namespace freshet::ctl
