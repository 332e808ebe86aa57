#include "fcgi/options.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <vector>

#include "tests/process/master_fixture.h"

namespace freshet::testing {
namespace {

using Action = Options::Action;

Options parse(std::vector<std::string> words) {
  words.insert(words.begin(), "freshetd");
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  argv.push_back(nullptr);
  return parse_options(static_cast<int>(words.size()), argv.data());
}

TEST_CASE("without options the service runs in the foreground with the default configuration file",
          "[process]") {
  const Options options = parse({});
  CHECK(options.action == Action::kRun);
  CHECK(options.config == "/etc/freshet/freshet.toml");
  CHECK_FALSE(options.daemonize);
  CHECK_FALSE(options.allow_root);
}

TEST_CASE("option letters and long names are those of PHP-FPM", "[process]") {
  CHECK(parse({"-t"}).action == Action::kTest);
  CHECK(parse({"--test"}).action == Action::kTest);
  CHECK(parse({"-tt"}).action == Action::kDump);
  CHECK(parse({"-t", "-y", "a", "-t"}).action == Action::kDump);
  CHECK(parse({"-y", "a"}).config == "a");
  CHECK(parse({"-ya"}).config == "a");
  CHECK(parse({"--fpm-config=a"}).config == "a");
  CHECK(parse({"--fpm-config", "a"}).config == "a");
  CHECK(parse({"-D"}).daemonize);
  CHECK_FALSE(parse({"-D", "-F"}).daemonize);
  CHECK(parse({"-F", "-D", "-F", "-D"}).daemonize);
  CHECK(parse({"-y", "a", "-y", "b"}).config == "b");
  CHECK(parse({"-R"}).allow_root);
  CHECK(parse({"--allow-to-run-as-root"}).allow_root);
  CHECK(parse({"-v"}).action == Action::kVersion);
  CHECK(parse({"-h"}).action == Action::kHelp);
  CHECK(parse({"-h", "-t"}).action == Action::kHelp);
}

TEST_CASE("an invalid command line is reported with the cause", "[process]") {
  struct {
    std::vector<std::string> words;
    const char* cause;
  } const wrong[] = {{{"-x"}, "-x"},
                     {{"--nonsense"}, "--nonsense"},
                     {{"-y"}, "FILE"},
                     {{"file"}, "file"},
                     {{"-t", "-x"}, "-x"}};
  for (const auto& example : wrong) {
    const Options options = parse(example.words);
    CHECK(options.action == Action::kUsage);
    CHECK(options.text.find(example.cause) != std::string::npos);
    CHECK(options.text.ends_with('\n'));
  }
}

TEST_CASE("the help lists every option", "[process]") {
  const std::string help = parse({"-h"}).text;
  for (const char* letter : {"-t,", "-y,", "-F,", "-D,", "-R,", "-v,", "-h,"})
    CHECK(help.find(letter) != std::string::npos);
  CHECK(parse({"-v"}).text.starts_with("freshetd "));
}

TEST_CASE("-t checks the configuration and -tt also prints the settings in force", "[process]") {
  const TempFolder folder;
  Options options = parse({"-t", "-y", folder / "f.toml"});
  std::ofstream(folder / "f.toml") << "views.gamma = 1.2\n";
  std::ostringstream good;
  CHECK(test_config(options, good) == 0);
  CHECK(good.str().find("WARNING: " + (folder / "f.toml") + ":1: views.gamma is outside") == 0);
  CHECK(good.str().find("configuration file " + (folder / "f.toml") + " test is successful\n") !=
        std::string::npos);
  CHECK(good.str().find("views.gamma = 1.2") == std::string::npos);
  options.action = Action::kDump;
  std::ostringstream dump;
  CHECK(test_config(options, dump) == 0);
  CHECK(dump.str().find("views.gamma = 1.2  # " + (folder / "f.toml") + ":1\n") != std::string::npos);
  std::ofstream(folder / "f.toml") << "\nx = 1\n";
  std::ostringstream bad;
  CHECK(test_config(options, bad) == 78);
  CHECK(bad.str().find((folder / "f.toml") + ":2: unknown directive \"x\"") != std::string::npos);
  CHECK(bad.str().find("test failed") != std::string::npos);
}

}  // namespace
}  // namespace freshet::testing
