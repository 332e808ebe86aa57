// Which configuration the commands read.
#include "scripts/ctl/commands/target.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/error_of.h"
#include "tests/support/unix_socket.h"

using namespace freshet;
using namespace freshet::ctl;
using namespace freshet::test;

namespace fs = std::filesystem;

TEST_CASE("without options the installed configuration is used if it exists", "[target]") {
  const TemporaryDirectory directory;
  const std::string folder = directory.path().string();
  Target target;
  target.default_config = folder + "/freshet.toml";
  CHECK(config_path(target).empty());
  CHECK(load_settings(target)->redis.url == Settings().redis.url);
  std::ofstream(target.default_config) << "redis.url = \"redis://192.0.2.1\"\n";
  CHECK(config_path(target) == target.default_config);
  const auto settings = load_settings(target);
  REQUIRE(settings);
  CHECK(service_endpoint(target, *settings)->host == "192.0.2.1");

  for (std::string Target::*const option : {&Target::state, &Target::base, &Target::redis, &Target::config}) {
    Target other = target;
    other.*option = folder + "/other";
    CHECK(config_path(other) == other.config);
  }
}

TEST_CASE("an installed configuration that cannot be read is an error that names it", "[target]") {
  const TemporaryDirectory directory;
  Target target;
  const bool is_folder = GENERATE(true, false);
  target.default_config = (directory.path() / "loop/freshet.toml").string();
  if (is_folder)
    fs::create_directories(target.default_config);
  else
    fs::create_symlink("loop", directory.path() / "loop");  // not even root can look into it
  const auto settings = load_settings(target);
  REQUIRE_FALSE(settings);
  CHECK(error_of(settings).detail.starts_with(target.default_config + ":1: cannot be read: "));
}
