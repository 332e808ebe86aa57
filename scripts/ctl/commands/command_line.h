// The command line of freshetctl: one row a subcommand.
#pragma once

#include <CLI/CLI.hpp>

namespace freshet::ctl {

// The exit status of a command that was not done: its options are wrong, something is not there.
// Anything else but 0 is what a command has found.
inline constexpr int kExitFailed = 2;

// Adds every subcommand and its options to `app`. After a successful parse exactly one of them has
// run and `status` is the exit status; an error has been written to stderr as one line.
void add_commands(CLI::App& app, int& status);

}  // namespace freshet::ctl
