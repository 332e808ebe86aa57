#include "fcgi/options.h"

#include <CLI/CLI.hpp>

#include <ostream>

namespace freshet {
namespace {

constexpr int kConfigError = 78;

}  // namespace

void add_options(CLI::App& app, Options& options) {
  using Action = Options::Action;
  const auto set_test_action = [&options](std::int64_t times) {
    options.action = times > 1 ? Action::kDump : Action::kTest;
  };
  const auto set_daemonize = [&options](bool background) {
    return [&options, background] { options.daemonize = background; };
  };
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("-v,--version", std::string("freshetd ") + FRESHET_VERSION,
                       "Print the version and exit");
  app.add_flag_function(
      "-t,--test", set_test_action,
      "Check the configuration and exit; twice: also print every setting in force and where it is set");
  app.add_option("-y,--fpm-config", options.config, "Read this configuration file")
      ->type_name("FILE")
      ->take_last()
      ->capture_default_str();
  // Callbacks run in the order of the arguments, so the last of -F and -D wins.
  app.add_flag_callback("-F,--nodaemonize", set_daemonize(false), "Run in the foreground (default)")
      ->trigger_on_parse();
  app.add_flag_callback("-D,--daemonize", set_daemonize(true), "Run in the background once started")
      ->trigger_on_parse();
  app.add_flag("-R,--allow-to-run-as-root", options.allow_root, "Allow workers to run as root");
}

Options parse_options(int argc, const char* const argv[]) {
  Options options;
  CLI::App app("", "freshetd");
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    using Action = Options::Action;
    const bool help = error.get_name() == "CallForHelp";
    options.action = help ? Action::kHelp : error.get_exit_code() == 0 ? Action::kVersion : Action::kUsage;
    options.text = help ? app.help() : std::string(error.what()) + "\n";
  }
  return options;
}

int test_config(const Options& options, std::ostream& out, const ExtraCheck& extra_check) {
  const auto loaded = load_config(options.config);
  if (!loaded) {
    out << loaded.error().detail << "\nERROR: configuration file " << options.config << " test failed\n";
    return kConfigError;
  }
  const auto print_warnings = [&out](const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) out << "WARNING: " << warning << "\n";
  };
  print_warnings(loaded->warnings);
  if (const auto checked = extra_check ? extra_check(loaded->settings) : std::vector<std::string>()) {
    print_warnings(*checked);
  } else {
    out << "ERROR: " << checked.error().detail << "\nERROR: configuration file " << options.config
        << " test failed\n";
    return kConfigError;
  }
  if (options.action == Options::Action::kDump) out << dump_config(loaded->settings, loaded->sources);
  out << "NOTICE: configuration file " << options.config << " test is successful\n";
  return 0;
}

}  // namespace freshet
