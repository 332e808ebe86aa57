#include "core/base/log.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/support/log_file.h"

using freshet::test::LogFile;

TEST_CASE("a log line is key=value, with quotes around values that are not a single word", "[log]") {
  const LogFile file("notice");
  freshet::log::notice(
      "started",
      {{"pid", "12"}, {"path", "/run/a.sock"}, {"why", "two words"}, {"empty", ""}, {"eq", "a=b"}});
  CHECK(LogFile::lines(file.path()) ==
        "level=notice event=started pid=12 path=/run/a.sock why=\"two words\" empty=\"\" eq=\"a=b\"\n");
}

TEST_CASE("a value cannot forge a line, a field or a terminal control sequence", "[log]") {
  const LogFile file("notice");
  freshet::log::warning("agent", {{"ua", "x\nlevel=error event=forged"},
                                  {"esc", "\x1b[31m\"\\\x7f"},
                                  {"c1", "a\xC2\x9B"},
                                  {"nul", std::string("a\0b", 3)},
                                  {"bad", "\xFF"},
                                  {"ls", "a\xE2\x80\xA8z"},
                                  {"text", "文é"}});
  CHECK(LogFile::lines(file.path()) ==
        "level=warning event=agent ua=\"x\\nlevel=error event=forged\" esc=\"\\x1b[31m\\\"\\\\\\x7f\" "
        "c1=\"a\\xc2\\x9b\" nul=\"a\\x00b\" bad=\"\\xff\" ls=\"a\\xe2\\x80\\xa8z\" text=文é\n");
}

TEST_CASE("braces and percent signs in a value are not interpreted", "[log]") {
  const LogFile file("notice");
  freshet::log::error("x", {{"v", "{}%s%n%v{0}"}});
  CHECK(LogFile::lines(file.path()) == "level=error event=x v={}%s%n%v{0}\n");
}

TEST_CASE("lines below the level are not written", "[log]") {
  const LogFile file("warning");
  freshet::log::debug("a");
  freshet::log::notice("b");
  freshet::log::warning("c");
  freshet::log::error("d");
  CHECK(LogFile::lines(file.path()) == "level=warning event=c\nlevel=error event=d\n");
}

TEST_CASE("reopening continues in a new file of the same name, at the same level", "[log]") {
  const LogFile file("debug");
  freshet::log::debug("before");
  std::filesystem::rename(file.path(), file.rotated_path());
  freshet::log::debug("moved");
  freshet::log::reopen();
  freshet::log::debug("after");
  CHECK(LogFile::lines(file.rotated_path()) == "level=debug event=before\nlevel=debug event=moved\n");
  CHECK(LogFile::lines(file.path()) == "level=debug event=after\n");
}
