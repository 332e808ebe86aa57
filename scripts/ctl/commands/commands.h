// The subcommands of freshetctl, in the order of its help.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <span>

#include "core/base/result.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

// What a subcommand does; its exit status.
using CommandAction = std::function<Result<int>(const Target&)>;

// Help of --json, which every command that reports has.
inline constexpr const char* kJsonHelp = "report as JSON, on one line";

struct Command {
  const char* name;
  const char* help;
  CommandAction (*add_options)(CLI::App&);  // adds the options; what they are set to, Run finds when it is called
};

// What goes into the service, and what it makes of it.
std::span<const Command> content_commands();
// Looking after a service that runs, and its data.
std::span<const Command> operation_commands();

}  // namespace freshet::ctl
