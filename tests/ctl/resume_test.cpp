#include "scripts/ctl/replay/resume.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "tests/support/error_of.h"
#include "tests/support/unix_socket.h"

using namespace freshet::ctl;
using freshet::test::error_of;
using freshet::test::TemporaryDirectory;

namespace {

ImportPosition sample_position() {
  return {{1, 18446744073709551615U, 3, -4}, "http://[::1]:8081", -86400, 5, 6, 7};
}

}  // namespace

TEST_CASE("a position round-trips through its text", "[ctl]") {
  CHECK(parse_position(to_text(sample_position())) == sample_position());
}

TEST_CASE("a truncated or foreign file is not a position", "[ctl]") {
  const std::string text = to_text(sample_position());
  for (std::size_t length = 0; length < text.size(); ++length)
    CHECK_FALSE(parse_position(text.substr(0, length)));
  CHECK_FALSE(parse_position("something else\nend\n"));
  CHECK_FALSE(parse_position("freshetctl import 1\nend\n"));
}

TEST_CASE("a resume file is replaced atomically, and a folder that is not writable is an error", "[ctl]") {
  const TemporaryDirectory directory;
  const ResumeFile file((directory.path() / "notes").string());
  CHECK_FALSE(file.read());
  REQUIRE(file.write(sample_position()));
  ImportPosition further = sample_position();
  further.offset = 1000;
  REQUIRE(file.write(further));
  CHECK(file.read() == further);
  file.remove();
  CHECK_FALSE(file.read());
  CHECK(std::filesystem::is_empty(directory.path()));
  CHECK(error_of(ResumeFile((directory.path() / "no" / "folder").string()).write(sample_position())).reason ==
        "resume_file");
}

TEST_CASE("a file that was changed or replaced has another identity", "[ctl]") {
  const TemporaryDirectory directory;
  const std::string path = (directory.path() / "items").string();
  std::ofstream(path) << "one\n";
  const auto before = file_identity(path);
  REQUIRE(before);
  CHECK(*file_identity(path) == *before);
  std::ofstream(path, std::ios::app) << "two\n";
  CHECK(*file_identity(path) != *before);
  const auto grown = *file_identity(path);
  std::ofstream(path + ".other") << "one\ntwo\n";
  std::filesystem::last_write_time(path + ".other", std::filesystem::last_write_time(path));
  std::filesystem::rename(path + ".other", path);
  CHECK(*file_identity(path) != grown);
  CHECK(error_of(file_identity(path + ".none")).reason == "no_file");
}
