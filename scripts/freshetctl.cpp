// freshetctl: command-line tool for operators and timers. The commands are in scripts/ctl.
#include <CLI/CLI.hpp>
#include <exception>

#include "scripts/ctl/commands/command_line.h"
#include "scripts/ctl/commands/print.h"

int main(int argc, char** argv) {
  CLI::App app(
      "Command-line tool of the Freshet service. Times are RFC 3339 or Unix seconds; durations are seconds "
      "unless a unit is given.",
      "freshetctl");
  app.set_version_flag("-v,--version", FRESHET_VERSION);
  int status = 0;
  try {
    freshet::ctl::add_commands(app, status);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : freshet::ctl::kExitFailed;
  } catch (const std::exception& error) {
    freshet::ctl::print(stderr, "freshetctl: {}\n", error.what());
    return freshet::ctl::kExitFailed;
  }
  return status;
}
