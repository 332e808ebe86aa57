// The file of `freshetctl tune` as a source of settings.
#include "core/config/tuning.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/config/config.h"
#include "tests/support/error_of.h"

namespace freshet {
namespace {

namespace fs = std::filesystem;

struct TuningFixture {
  TuningFixture() {
    std::string name = (fs::temp_directory_path() / "freshet-tuning-XXXXXX").string();
    folder = mkdtemp(name.data());
  }
  ~TuningFixture() { fs::remove_all(folder); }
  TuningFixture(const TuningFixture&) = delete;
  TuningFixture& operator=(const TuningFixture&) = delete;

  fs::path file() const { return folder / "tuned.toml"; }
  void write(const std::string& text) const { std::ofstream(file()) << text; }
  void write_signed(const std::string& text) const { write(text + tuning_checksum_line(text)); }
  LoadedConfig load(const std::string& directives = "") const {
    const fs::path main_file = folder / "freshet.toml";
    std::ofstream(main_file) << directives << "\ntune.file = \"" << file().string() << "\"\n";
    auto loaded = load_config(main_file);
    INFO((loaded ? "" : loaded.error().detail));
    REQUIRE(loaded);
    return *loaded;
  }
  // True if no value of the file applies and one warning says why.
  bool is_ignored(const std::string& why) const {
    const LoadedConfig loaded = load();
    const auto is_told = [&](const std::string& each) {
      return each.find("tuned.toml is ignored: ") != std::string::npos && each.find(why) != std::string::npos;
    };
    return loaded.settings.hot_default_model == "auto" &&
           std::count_if(loaded.warnings.begin(), loaded.warnings.end(), is_told) == 1;
  }

  fs::path folder;
};

constexpr const char* kHead = "format = 1\ncreated = 1700000000\n[values]\n";

}  // namespace

TEST_CASE_METHOD(TuningFixture, "tuned values apply where the administrator has not decided", "[tuning]") {
  write_signed(std::string(kHead) +
               "hot.default_model = \"trending\"\ntrending.half_life = \"15m\"\nviews.gamma = 1.7\n");
  LoadedConfig loaded = load();
  CHECK(loaded.settings.hot_default_model == "trending");
  CHECK(loaded.settings.trending.half_life == seconds(900));
  CHECK(loaded.settings.views.gamma == 1.7);
  CHECK(loaded.sources.at("views.gamma") == file().string());
  loaded = load("hot.default_model = \"auto\"\ntrending.half_life = \"6h\"");
  CHECK(loaded.settings.hot_default_model == "trending");
  CHECK(loaded.settings.trending.half_life == seconds(21600));
  CHECK(load("hot.default_model = \"views\"").settings.hot_default_model == "views");
  setenv("FRESHET_CONF_VIEWS_GAMMA", "1.4", 1);
  CHECK(load().settings.views.gamma == 1.4);
  unsetenv("FRESHET_CONF_VIEWS_GAMMA");
}

TEST_CASE_METHOD(TuningFixture, "without a file the defaults apply, without a warning", "[tuning]") {
  const LoadedConfig loaded = load();
  CHECK(loaded.settings.hot_default_model == "auto");
  for (const std::string& each : loaded.warnings) CHECK(each.find("tuned.toml") == std::string::npos);
}

TEST_CASE_METHOD(TuningFixture, "a file that cannot be trusted is ignored with a warning", "[tuning]") {
  const std::string text = std::string(kHead) + "hot.default_model = \"trending\"\n";
  SECTION("truncated") {
    write(text);
    CHECK(is_ignored("checksum"));
    write("");
    CHECK(is_ignored("checksum"));
    write("\n");
    CHECK(is_ignored("checksum"));
  }
  SECTION("changed") {
    write(std::string(kHead) + "hot.default_model = \"engagement\"\n" + tuning_checksum_line(text));
    CHECK(is_ignored("checksum"));
  }
  SECTION("not TOML") {
    write_signed("hot.default_model = trending\n");
    CHECK(is_ignored(""));
  }
  SECTION("another format") {
    write_signed("format = 2\n[values]\nhot.default_model = \"trending\"\n");
    CHECK(is_ignored("its format is not supported"));
  }
  SECTION("from the future") {
    write_signed("format = 1\ncreated = 4000000000\n[values]\nhot.default_model = \"trending\"\n");
    CHECK(is_ignored("more than a day ahead"));
  }
  SECTION("with a directive that cannot be tuned") {
    write_signed(text + "redis.url = \"redis://example.org\"\n");
    CHECK(is_ignored("redis.url cannot be tuned"));
  }
  SECTION("with a value out of range") {
    write_signed(text + "trending.half_life = \"7m\"\n");
    CHECK(is_ignored("must be 5m, 15m, 1h, 6h or 24h"));
    write_signed(text + "views.gamma = 99\n");
    CHECK(is_ignored("views.gamma"));
  }
  SECTION("a folder") {
    fs::create_directory(file());
    CHECK(is_ignored("cannot be read: Is a directory"));
  }
}

}  // namespace freshet
