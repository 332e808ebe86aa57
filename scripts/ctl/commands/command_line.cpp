#include "scripts/ctl/commands/command_line.h"

#include <memory>

#include "core/config/aliases.h"
#include "core/config/config.h"
#include "scripts/ctl/commands/commands.h"
#include "scripts/ctl/commands/print.h"

namespace freshet::ctl {
namespace {

void add_target(CLI::App& app, Target& target) {
  app.add_option("--state", target.state, "use the instance started by scripts/run --state DIR")
      ->type_name("DIR");
  app.add_option("--base", target.base,
                 std::string("the internal server: http://host:port or unix:///path (default ") +
                     kDefaultBaseUrl + ")")
      ->type_name("URL");
  app.add_option("--redis", target.redis, "unix:///path or redis://[user:password@]host[:port][/db]")
      ->type_name("URL");
  app.add_option("--redis-user", target.redis_user,
                 "Redis account to use instead of the service's, and the file with its password")
      ->type_name("NAME:FILE");
  app.add_option("--key", target.key, "a key of the internal server (identity.internal_keys) and its file")
      ->type_name("KID:FILE");
  target.default_config = kDefaultConfigPath;
  app.add_option("--config", target.config,
                 "the service's freshet.toml (default: without --state, --base and --redis, " +
                     target.default_config + " if it exists)")
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
        "; recorder.enabled is false: the database is on the host shown as `recorder holder` by `freshetctl "
        "status`";
  ctl::print(stderr, "freshetctl {}: {}\n", command.name, line);
  return kExitFailed;
}

// Adds the command under `name`. A former name is left out of the help and prints a warning.
void add_command(CLI::App& app, const Command& command, const std::string& name,
                 const std::shared_ptr<Target>& target, int& status) {
  const bool is_alias = name != command.name;
  CLI::App* sub = app.add_subcommand(name, command.help);
  if (is_alias) sub->group("");
  sub->callback([is_alias, name, &command, target, &status, body = command.add_options(*sub)] {
    if (is_alias) ctl::print(stderr, "freshetctl: {} is now called {}\n", name, command.name);
    status = run_command(command, body, *target);
  });
}

}  // namespace

void add_commands(CLI::App& app, int& status) {
  app.require_subcommand(1);
  app.fallthrough();  // global options may precede or follow the subcommand
  auto target = std::make_shared<Target>();
  add_target(app, *target);
  for (const std::span<const Command> commands : {content_commands(), operation_commands()}) {
    for (const Command& command : commands) {
      add_command(app, command, command.name, target, status);
      if (const NameAlias* alias = alias_of(command.name))
        add_command(app, command, std::string(alias->former_name), target, status);
    }
  }
}

}  // namespace freshet::ctl
