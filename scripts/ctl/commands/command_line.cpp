#include "scripts/ctl/commands/command_line.h"

#include <fmt/format.h>

#include <memory>

#include "scripts/ctl/commands/commands.h"

namespace freshet::ctl {
namespace {

void add_target(CLI::App& app, Target& target) {
  app.add_option("--state", target.state, "an instance that scripts/run --state DIR started")
      ->type_name("DIR");
  app.add_option(
         "--base", target.base,
         std::string("the internal server: http://host:port or unix:///path (default ") + kDefaultBaseUrl + ")")
      ->type_name("URL");
  app.add_option("--redis", target.redis, "unix:///path or redis://[user:password@]host[:port][/db]")
      ->type_name("URL");
  app.add_option("--redis-user", target.redis_user,
                 "another account of Redis than the service's, and the file with its password")
      ->type_name("NAME:FILE");
  app.add_option("--key", target.key,
                 "a key of the internal server (identity.internal_keys), and the file it is in")
      ->type_name("KID:FILE");
  app.add_option("--config", target.config, "the service's freshet.toml: Redis, key prefix, weights, caps")
      ->type_name("FILE");
}

bool records_here(const Target& target) {
  const auto settings = load_settings(target);
  return !settings || settings->recorder.enabled;
}

int run_command(const Command& command, const CommandAction& body, const Target& target) {
  const Result<int> status = body(target);
  if (status) return *status;
  const Error& error = status.error();
  std::string line = error.detail.empty() ? std::string(error.reason) : error.detail;
  while (line.ends_with('\n')) line.pop_back();
  if (error.reason == "database_absent" && !records_here(target))
    line +=
        "; recorder.enabled is false: the database is on the host that `freshetctl status` names as "
        "recorder holder";
  fmt::print(stderr, "freshetctl {}: {}\n", command.name, line);
  return kExitFailed;
}

}  // namespace

void add_commands(CLI::App& app, int& status) {
  app.require_subcommand(1);
  app.fallthrough();  // --state and its like may stand before or after the subcommand
  auto target = std::make_shared<Target>();
  add_target(app, *target);
  for (const std::span<const Command> commands : {content_commands(), operation_commands()}) {
    for (const Command& command : commands) {
      CLI::App* sub = app.add_subcommand(command.name, command.help);
      sub->callback([&command, target, &status, body = command.add_options(*sub)] {
        status = run_command(command, body, *target);
      });
    }
  }
}

}  // namespace freshet::ctl
