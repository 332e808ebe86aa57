// Command line of freshetctl.
#pragma once

#include <CLI/CLI.hpp>

namespace freshet::ctl {

// Exit status of a command that could not run: bad options, something missing, Redis unreachable.
// Other nonzero statuses are a command's result.
inline constexpr int kExitFailed = 2;

// Adds every subcommand and its options to `app`. A successful parse runs exactly one of them and
// sets `status` to the exit status; an error is written to stderr as one line.
void add_commands(CLI::App& app, int& status);

}  // namespace freshet::ctl
