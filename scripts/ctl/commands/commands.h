// Subcommands of freshetctl, in the order of its help.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <span>

#include "core/base/result.h"
#include "scripts/ctl/commands/target.h"

namespace freshet::ctl {

// Executes a subcommand; returns its exit status.
using CommandAction = std::function<Result<int>(const Target&)>;

// Help text of --json.
inline constexpr const char* kJsonHelp = "print JSON on one line";

struct Command {
  const char* name;
  const char* help;
  // adds the options to the app; the action reads their values when it runs
  CommandAction (*add_options)(CLI::App&);
};

// Commands for content, events and models.
std::span<const Command> content_commands();
// Commands for operating a service and its data.
std::span<const Command> operation_commands();

}  // namespace freshet::ctl
