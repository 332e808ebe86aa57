// Command line of freshetd, with PHP-FPM's option letters.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "core/config/config.h"
#include "core/config/settings.h"

namespace CLI {
class App;
}

namespace freshet {

struct Options {
  enum class Action {
    kRun,
    kTest,     // -t: check the configuration
    kDump,     // -tt: check it and print every setting in force
    kVersion,  // -v
    kHelp,     // -h
    kUsage,    // invalid command line; exit with kExitUsage
  };
  Action action = Action::kRun;
  std::string config = kDefaultConfigPath;  // -y
  bool daemonize = false;                   // -D; -F (the default) resets it
  bool allow_root = false;                  // -R
  std::string text;                         // text to print for kVersion, kHelp and kUsage
};

inline constexpr int kExitUsage = 64;  // sysexits.h EX_USAGE

// The table of options, also the source of the manual page and the completion. `options` must
// outlive the parsing.
void add_options(CLI::App& app, Options& options);

// Parses the whole command line. Prints nothing.
Options parse_options(int argc, const char* const argv[]);

// -t and -tt: prints warnings, errors and the result, one per line. Returns the exit status, 0 or
// 78 (sysexits.h EX_CONFIG). `extra_check` validates files that the settings name, and returns
// further warnings.
using ExtraCheck = std::function<Result<std::vector<std::string>>(const Settings&)>;
int test_config(const Options& options, std::ostream& out, const ExtraCheck& extra_check = {});

}  // namespace freshet
