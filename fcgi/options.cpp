#include "fcgi/options.h"

#include <getopt.h>

#include <array>
#include <ostream>

#include "core/config/config.h"

namespace freshet {
namespace {

constexpr int kConfigError = 78;

struct Row {
  char letter;
  const char* name;
  const char* argument;  // nullptr: takes none
  const char* meaning;
  void (*apply)(Options&, const char*);
};

// -h and -v win over what else is asked for; -t twice prints the directives too.
void ask(Options& options, Options::Action action) {
  const bool settled =
      options.action == Options::Action::kHelp || options.action == Options::Action::kVersion;
  if (!settled) options.action = action;
}

void ask_test(Options& options, const char*) {
  ask(options, options.action == Options::Action::kTest ? Options::Action::kDump : Options::Action::kTest);
}

// clang-format off
constexpr std::array kRows{
    Row{'t', "test", nullptr, "check the configuration and exit; twice: print every directive too", ask_test},
    Row{'y', "fpm-config", "FILE", "read this configuration", [](Options& o, const char* v) { o.config = v; }},
    Row{'F', "nodaemonize", nullptr, "stay in the foreground (the default)", [](Options& o, const char*) { o.daemonize = false; }},
    Row{'D', "daemonize", nullptr, "go to the background once started", [](Options& o, const char*) { o.daemonize = true; }},
    Row{'R', "allow-to-run-as-root", nullptr, "let workers run as root", [](Options& o, const char*) { o.allow_root = true; }},
    Row{'v', "version", nullptr, "print the version and exit", [](Options& o, const char*) { ask(o, Options::Action::kVersion); }},
    Row{'h', "help", nullptr, "print this and exit", [](Options& o, const char*) { ask(o, Options::Action::kHelp); }},
};
// clang-format on

const Row* find_row(int letter) {
  for (const Row& row : kRows)
    if (row.letter == letter) return &row;
  return nullptr;
}

Options wrong(std::string why) {
  Options options;
  options.action = Options::Action::kUsage;
  options.error = std::move(why);
  return options;
}

}  // namespace

Options parse_options(int argc, char* const argv[]) {
  std::string letters = ":";  // first: a missing argument is told from an unknown letter
  std::array<option, kRows.size() + 1> names{};
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    letters += kRows[i].letter;
    if (kRows[i].argument) letters += ':';
    names[i] = {kRows[i].name, kRows[i].argument ? required_argument : no_argument, nullptr, kRows[i].letter};
  }
  Options options;
  opterr = 0;
  optind = 0;  // glibc: begin anew
  for (int letter = 0; (letter = getopt_long(argc, argv, letters.c_str(), names.data(), nullptr)) != -1;) {
    const Row* row = find_row(letter);
    if (letter == ':') return wrong(std::string("an argument is missing after ") + argv[optind - 1]);
    if (!row)
      return wrong("unknown option " +
                   (optopt ? std::string("-") + static_cast<char>(optopt) : std::string(argv[optind - 1])));
    row->apply(options, optarg);
  }
  if (optind < argc) return wrong(std::string("unexpected argument ") + argv[optind]);
  return options;
}

std::string version_text() { return std::string("freshetd ") + FRESHET_VERSION + "\n"; }

std::string help_text() {
  std::string text = "Usage: freshetd [options]\n";
  for (const Row& row : kRows) {
    std::string left = std::string("  -") + row.letter + ", --" + row.name;
    if (row.argument) left += std::string(" ") + row.argument;
    left.resize(std::max<std::size_t>(left.size() + 2, 32), ' ');
    text += left + row.meaning + "\n";
  }
  return text;
}

int test_config(const Options& options, std::ostream& out, const AlsoTest& also) {
  const auto loaded = load_config(options.config);
  if (!loaded) {
    out << loaded.error().detail << "\nERROR: configuration file " << options.config << " test failed\n";
    return kConfigError;
  }
  for (const std::string& warning : loaded->warnings) out << "WARNING: " << warning << "\n";
  if (const Result<void> fine = also ? also(loaded->settings) : Result<void>(); !fine) {
    out << "ERROR: " << fine.error().detail << "\nERROR: configuration file " << options.config
        << " test failed\n";
    return kConfigError;
  }
  if (options.action == Options::Action::kDump) out << dump_config(loaded->settings);
  out << "NOTICE: configuration file " << options.config << " test is successful\n";
  return 0;
}

}  // namespace freshet
