// The command line of freshetd: PHP-FPM's letters.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "core/base/result.h"
#include "core/config/settings.h"

namespace CLI {
class App;
}

namespace freshet {

struct Options {
  enum class Action {
    kRun,
    kTest,     // -t: check the configuration
    kDump,     // -tt: check it and print every directive in force
    kVersion,  // -v
    kHelp,     // -h
    kUsage,    // the command line is wrong; exit kExitUsage
  };
  Action action = Action::kRun;
  std::string config = "/etc/freshet/freshet.toml";  // -y
  bool daemonize = false;                            // -D; -F (the default) undoes it
  bool allow_root = false;                           // -R
  std::string text;                                  // of kVersion, kHelp and kUsage: what to print
};

inline constexpr int kExitUsage = 64;  // sysexits.h

// The table of options, from which the manual page and the completion are made too. `options` must
// outlive the parsing.
void add_options(CLI::App& app, Options& options);

// Reads the whole command line; prints nothing.
Options parse_options(int argc, const char* const argv[]);

// -t and -tt: warnings, errors and the verdict, a line each. Returns the exit status: 0, or 78
// (sysexits.h: configuration). `also` looks at what the settings name, which only the main knows.
using ExtraCheck = std::function<Result<void>(const Settings&)>;
int test_config(const Options& options, std::ostream& out, const ExtraCheck& extra_check = {});

}  // namespace freshet
